import { expect, it } from 'vitest'

import { run } from './in-process.ts'

it.each([
  ['nope'],
  ['eval nope'],
  ['eval'],
  ['doctor --nope'],
  ['rollout send'],
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
