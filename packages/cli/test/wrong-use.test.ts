import { Writable } from 'node:stream'

import { main } from '@osmosis/cli'
import { expect, it } from 'vitest'

import { inWorkspace, run } from './in-process.ts'
import { temporaryFolder, testEnvironment, workspace } from './osmosis.ts'

inWorkspace()

it.each([
  ['nope'],
  ['eval nope'],
  ['eval'],
  ['doctor --nope'],
  ['eval note'],
  ['test --limit 0'],
  ['eval show --sort'],
  ['auth whoami --nope'],
])('osmosis %s is wrong use, and ends with 2', async (words) => {
  const { code, stdout } = await run(words.split(' '))
  expect([code, stdout]).toEqual([2, ''])
})

it.each(['--help', '--version', 'eval run --help'])('osmosis %s ends with 0', async (words) => {
  expect((await run(words.split(' '))).code).toBe(0)
})

it.each([
  ['eval run --modell m1', '(osmosis eval run --help lists arguments and flags)'],
  ['worker', '(osmosis worker --help lists arguments and flags)'],
  ['evla', '(osmosis --help lists commands and flags)'],
])('osmosis %s names the help that has what was meant', async (words, help) => {
  const { stderr } = await run(words.split(' '))
  expect(stderr.trimEnd().split('\n').at(-1)).toBe(help)
})

it.each([
  ['view', 'osmosis eval view'],
  ['init my-agent', 'osmosis rollout init'],
  ['compare a b', 'osmosis eval compare'],
  ['runs', 'osmosis eval runs'],
  ['rollout run', 'osmosis eval run'],
  ['eval doctor', 'osmosis doctor'],
])('osmosis %s names the command of another topic: %s', async (words, command) => {
  const { code, stderr } = await run(words.split(' '))
  expect(code).toBe(2)
  expect(stderr).toMatch(new RegExp(`^Did you mean .*${command}\\b.*\\?$`, 'm'))
})

it('eval run without a config names those of the workspace', async () => {
  const { code, stderr } = await run(['eval', 'run'])
  expect(code).toBe(2)
  expect(stderr).toMatch(/Configs here: configs\/eval\/.*echo\.toml/)
})

it.each([40, 80])('an error fits a terminal of %i columns', async (columns) => {
  let text = ''
  const write = (chunk: unknown, _encoding: string, done: () => void): void => {
    text += String(chunk)
    done()
  }
  const stderr = Object.assign(new Writable({ write }), { isTTY: true, columns })
  await main(['eval', 'show', 'nothing'], { stderr, cwd: workspace, env: testEnvironment })
  expect(text).toMatch(/^error: There is no run/)
  const words = text.split('\n').filter((line) => line.includes(' '))
  expect(Math.max(...words.map((line) => line.length))).toBeLessThanOrEqual(columns)
})

const long = 'x'.repeat(300)

it.each([
  ['serve', long],
  ['serve', '-m', 'a.ts', 'b.ts'],
  ['serve', '--group-size', '2', 'rollouts/echo/main.ts'],
  ['worker', 'rollouts/echo/main.ts'],
  ['worker', 'rollouts/echo/main.ts', '--redis', 'nowhere'],
  ['validate', '-m', long],
  ['test', '-m', 'rollouts/none.ts', '-d', 'data/words.jsonl'],
  ['eval', 'run', long],
  ['eval', 'run', 'configs/eval/echo.toml', '--name', long],
  ['eval', 'run', 'configs/eval/echo.toml', '--output', long],
  ['eval', 'runs', '--output', long],
  ['eval', 'show', long],
  ['eval', 'show', 'latest', '--output', long],
  ['eval', 'compare', long, long],
  ['eval', 'view', long],
  ['eval', 'regrade', long],
  ['eval', 'note', long, '1.1', 'text'],
  ['eval', 'notes', long],
  ['eval', 'export', long, '--csv', long],
  ['rollout', 'init', long],
  ['validate', long],
  ['dataset', 'validate', long],
  ['dataset', 'list', '--env-file', long],
  ['secret', 'set', long],
])('what cannot be is a sentence, no stack, and ends with 2: %j', async (...words) => {
  const { code, stdout, stderr } = await run(words, { HOME: temporaryFolder() })
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(/^error: /m)
  expect(stderr).not.toMatch(/\n\s+at /)
})

it('what cannot be is one JSON document with --json', async () => {
  const { code, stdout, stderr } = await run(['eval', 'show', 'nothing', '--json'])
  expect([code, stdout, JSON.parse(stderr)]).toMatchObject([
    2,
    '',
    { schema_version: 1, command: 'eval show', error: { code: 'VALIDATION' } },
  ])
})
