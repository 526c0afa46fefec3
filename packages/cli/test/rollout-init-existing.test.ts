import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { frameworkNames } from '@osmosis/create'
import { expect, it } from 'vitest'

import { here, run, workIn } from './in-process.ts'
import { problems } from './migrated-workspace.ts'
import { temporaryFolder } from './osmosis.ts'

const packages = path.resolve(import.meta.dirname, '../..')

/** A project with the packages of this repository. */
function project(...installed: readonly string[]): void {
  const root = temporaryFolder()
  for (const name of installed) {
    const link = path.join(root, 'node_modules/@osmosis', name)
    mkdirSync(path.dirname(link), { recursive: true })
    symlinkSync(path.join(packages, name), link)
  }
  writeFileSync(path.join(root, 'package.json'), '{ "type": "module" }')
  workIn(root)
}

const init = (...args: readonly string[]) =>
  run(['rollout', 'init', 'one', '--existing', '--no-install', ...args])

/** Puts code to the marked place of a file. */
function fillIn(name: string, code: string): void {
  const file = here(name)
  writeFileSync(file, readFileSync(file, 'utf8').replace(/throw new Error\([^]*?\n {4}\)/, code))
}

const row = '{"user_prompt":"How many?","ground_truth":"3"}\n'
const [main, grader] = ['rollouts/one/main.ts', 'rollouts/one/grader.ts'] as const
const asks = `const { requireRolloutContext } = await import('@osmosis/core')
    const policy = requireRolloutContext('One').registerPolicySample('main')
    await policy.complete({ messages: ctx.prompt })`

it.each<[string, () => void, () => object[]]>([
  [
    'rows are missing',
    () => {},
    () => [
      {
        check: 'dataset',
        message: expect.stringContaining('no rows') as string,
        file: 'data/one.jsonl',
        page: 'node_modules/@osmosis/cli/docs/guides/datasets.md#columns',
      },
    ],
  ],
  [
    'the agent is missing',
    () => writeFileSync(here('data/one.jsonl'), row),
    () => [
      {
        check: 'rollout',
        message: expect.stringContaining('no agent runs here yet') as string,
        file: main,
        line: lineOf(main, 'throw new Error'),
      },
    ],
  ],
  [
    'the agent has its old model',
    () => {
      writeFileSync(here('data/one.jsonl'), row)
      fillIn(main, 'await Promise.resolve()')
    },
    () => [
      { check: 'model calls', message: 'No model call reached the policy.' },
      { check: 'rollout', message: expect.stringContaining('reached the policy') as string },
    ],
  ],
  [
    'the grader is missing',
    () => {
      writeFileSync(here('data/one.jsonl'), row)
      fillIn(main, asks)
    },
    () => [
      {
        check: 'rollout',
        message: expect.stringContaining('no grader is written yet') as string,
        file: grader,
        line: lineOf(grader, 'throw new Error'),
      },
    ],
  ],
  [
    'nothing is missing',
    () => {
      writeFileSync(here('data/one.jsonl'), row)
      fillIn(main, asks)
      fillIn(grader, 'ctx.setReward(answer === label ? 1 : 0)')
    },
    () => [],
  ],
])('validate says what to do next for an agent that exists: %s', async (_what, done, expected) => {
  project('core', 'controller')
  const { code, stderr } = await init('--framework', 'openai-agents')
  expect(code).toBe(0)
  expect(stderr).toContain('npm install\n  npx osmosis validate one\n')
  done()
  const found = await problems()
  expect(found).toHaveLength(expected().length)
  expect(found).toMatchObject(expected())
})

it('the scripted policy answers evaluations of an agent that exists', async () => {
  project('core', 'controller')
  await init('--framework', 'openai-agents')
  writeFileSync(here('data/one.jsonl'), row)
  fillIn(main, asks)
  fillIn(grader, 'ctx.setReward(answer === label ? 1 : 0)')
  const policy = ['--policy', 'policies/one.ts']
  expect(await run(['eval', 'run', 'configs/eval/one.toml', ...policy])).toMatchObject({ code: 0 })
})

it('an agent loop gets a module with a marked place, which computes its reward itself', async () => {
  project('agent-loop')
  await init('--framework', 'agent-loop')
  writeFileSync(here('data/one.jsonl'), row)
  expect(await problems()).toMatchObject([
    {
      check: 'rollout',
      message: expect.stringContaining('no loop runs here yet') as string,
      file: main,
      line: lineOf(main, 'throw new Error'),
    },
  ])
  expect(existsSync(here('rollouts/one/grader.ts'))).toBe(false)
})

it.each(frameworkNames)('an agent of %s gets no example, and rows stay', async (framework) => {
  project()
  mkdirSync(here('data'))
  writeFileSync(here('data/one.jsonl'), row)
  expect(await init('--framework', framework)).toMatchObject({ code: 0 })
  expect(existsSync(here('rollouts/one/prices.ts'))).toBe(false)
  expect(readFileSync(here('data/one.jsonl'), 'utf8')).toBe(row)
  const texts = ['AGENTS.md', 'osmosis.toml', 'rollouts/one/main.ts'].map((file) =>
    readFileSync(here(file), 'utf8'),
  )
  expect(texts.join('\n')).not.toMatch(/\{\{|__|^default_policy/m)
  expect(texts[2]).toContain('    // 1. ')
})

it.each([
  [['tickets.csv', 'notes.md'], 'tickets.csv'],
  [['tickets.csv', 'one.parquet'], 'one.parquet'],
  [['tickets.csv', 'orders.jsonl'], undefined],
  [[], undefined],
])('configs name the rows that are there: data/ has %j', async (files, dataset) => {
  project()
  mkdirSync(here('data'))
  for (const file of files) writeFileSync(here(`data/${file}`), 'user_prompt,ground_truth\n')
  const { code, stderr } = await init('--framework', 'strands')
  expect(code).toBe(0)
  expect(stderr).toContain('  rollouts/one/grader.ts\n')
  expect(stderr.includes(`rows that are there: data/${dataset}`)).toBe(dataset !== undefined)
  expect(existsSync(here('data/one.jsonl'))).toBe(dataset === undefined)
  for (const kind of ['eval', 'training']) {
    const config = readFileSync(here(`configs/${kind}/one.toml`), 'utf8')
    expect(config).toContain(`dataset = "${dataset ?? 'one'}"`)
  }
})

it('rows that a config of another rollout names are not taken, but others beside them', async () => {
  project()
  await run(['rollout', 'init', 'other', '--framework', 'strands', '--no-install'])
  expect(existsSync(here('data/other.jsonl'))).toBe(true)
  expect((await init('--framework', 'strands')).stderr).not.toContain('rows that are there')
  expect(existsSync(here('data/one.jsonl'))).toBe(true)

  // A name that stands in the comments of every config.
  writeFileSync(here('data/file.jsonl'), row)
  const two = ['rollout', 'init', 'two', '--existing', '--framework', 'strands', '--no-install']
  expect((await run(two)).stderr).toContain('rows that are there: data/file.jsonl\n')
})

function lineOf(name: string, text: string): number {
  const source = readFileSync(here(name), 'utf8')
  return source.slice(0, source.indexOf(text)).split('\n').length
}
