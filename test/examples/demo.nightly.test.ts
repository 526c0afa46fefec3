import { once } from 'node:events'

import { expect, it, onTestFinished } from 'vitest'

import { run, start, type Finished } from './command.ts'
import { argsOf, passedOf, evaluations, steps } from './demo.ts'

const [first = '', ...others] = evaluations

// examples/policies/arithmetic.ts errs on one answer in five of all, and on three in ten of the first.
it.each([
  { evaluation: first, rows: 50, passed: 160 },
  ...others.map((evaluation) => ({ evaluation, rows: 5, passed: 14 })),
])(
  '$evaluation with $rows rows: its table and files agree with the error rate of the policy',
  async ({ evaluation, rows, passed }) => {
    const inAProcess = async (args: readonly string[]): Promise<Finished> => run('osmosis', args)
    expect(await passedOf(evaluation, rows, inAProcess)).toBe(passed)
  },
  600_000,
)

it.each([first])('%s keeps its run where the last command looks', async (evaluation) => {
  const { code, stdout, stderr } = await run('osmosis', [...argsOf(evaluation), '--dry-run'])
  expect(code).toBe(0)
  expect(stdout + stderr).toContain('examples/.osmosis/evals/')
  expect(stdout + stderr).toContain('50 rows × 4 attempts = 200 rollouts')
})

it('the last command of the demo opens the viewer', async () => {
  const words = (steps.at(-1) ?? '').split('npx osmosis ').at(-1) ?? ''
  const viewer = start('osmosis', [...words.split(' '), '--no-open'])
  onTestFinished(() => void viewer.kill())
  const [printed] = (await once(viewer.stdout ?? viewer, 'data')) as [Buffer]
  const { origin } = new URL(String(printed))
  expect(await (await fetch(origin)).text()).toContain('<title>')
})
