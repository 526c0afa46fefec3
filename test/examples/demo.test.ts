import { once } from 'node:events'
import { globSync } from 'node:fs'

import { expect, it, onTestFinished } from 'vitest'

import { root, run, start, type Finished } from './command.ts'
import { passedOf, evaluations, steps, argsOf } from './demo.ts'

const last = steps.at(-1) ?? ''

it(
  'an evaluation of the demo can be graded again, exported and read',
  { tags: 'slow' },
  async () => {
    const [evaluation = ''] = evaluations
    // Its policy continues after the other evaluations of this process.
    expect(await passedOf(evaluation, 5)).toBeGreaterThan(0)
  },
)

it('the demo ends with the command that opens the viewer on what it has run', () => {
  const command = last.slice(last.indexOf('npx osmosis '))
  const [, , ...args] = command.split(' ')
  expect(args).toEqual(['eval', 'view', '--output', 'examples/.osmosis/evals'])
})

it('the demo is made of evaluations, and says last how to read them', () => {
  expect(steps).toEqual([...evaluations, last])
  expect(evaluations).toHaveLength(6)
  expect(last).toMatch(/^echo /)
})

it('the demo runs the eval config of every framework that has an adapter', () => {
  const configs = globSync(
    'examples/configs/eval/*-{openai-agents,strands,ai-sdk,langgraph,google-adk}.toml',
    {
      cwd: root,
    },
  )
  expect(configs).toHaveLength(5)
  expect(evaluations.map((evaluation) => evaluation.split(' ').at(-1) ?? '')).toEqual(
    expect.arrayContaining(configs),
  )
})

const [first = '', ...others] = evaluations

// examples/policies/arithmetic.ts errs on one answer in five of all, and on three in ten of the first.
it.each([
  { evaluation: first, rows: 50, passed: 160 },
  ...others.map((evaluation) => ({ evaluation, rows: 5, passed: 14 })),
])(
  '$evaluation with $rows rows: its table and files agree with the error rate of the policy',
  { tags: 'nightly', timeout: 600_000 },
  async ({ evaluation, rows, passed }) => {
    const inAProcess = async (args: readonly string[]): Promise<Finished> => run('osmosis', args)
    expect(await passedOf(evaluation, rows, inAProcess)).toBe(passed)
  },
)

it.each([first])(
  '%s keeps its run where the last command looks',
  { tags: 'nightly' },
  async (evaluation) => {
    const { code, stdout, stderr } = await run('osmosis', [...argsOf(evaluation), '--dry-run'])
    expect(code).toBe(0)
    expect(stdout + stderr).toContain('examples/.osmosis/evals/')
    expect(stdout + stderr).toContain('50 rows × 4 attempts = 200 rollouts')
  },
)

it('the last command of the demo opens the viewer', { tags: 'nightly' }, async () => {
  const words = (steps.at(-1) ?? '').split('npx osmosis ').at(-1) ?? ''
  const viewer = start('osmosis', [...words.split(' '), '--no-open'])
  onTestFinished(() => void viewer.kill())
  const [printed] = (await once(viewer.stdout ?? viewer, 'data')) as [Buffer]
  const { origin } = new URL(String(printed))
  expect(await (await fetch(origin)).text()).toContain('<title>')
})
