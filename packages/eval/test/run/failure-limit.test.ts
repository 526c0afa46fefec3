import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { evaluate } from '../evaluations.ts'
import { failedWorkflow, rewarded } from '../rollout-results.ts'
import { journalOf, newRun } from '../stored-evaluations.ts'

const boom = failedWorkflow("Cannot read properties of undefined (reading 'orders')")

it('an agent that always throws is stopped after 20 rollouts, also when it is started again', async () => {
  await using store = await newRun(await temporaryFolder(), 50)
  let row = 0
  const throwing = (): typeof boom => failedWorkflow(`no tool named "t${(row += 1)}" in row ${row}`)
  const stopped = await evaluate(50, throwing, { store })
  expect(stopped).toMatchObject({ status: 'incomplete', pending: 30 })
  expect(stopped.incompleteReason).toBe(
    'The first 20 rollouts all failed the same way, with agent_error: no tool named "t20" in row 20. Fix that and start again.',
  )
  expect((await evaluate(50, throwing, { store })).pending).toBe(30)
  expect(journalOf(store)).toHaveLength(20)
  const runAgain = (): boolean => true
  expect((await evaluate(50, throwing, { store, runAgain })).pending).toBe(30)
  expect(row).toBe(40)
  expect((await evaluate(50, throwing, { store, failOnError: false })).status).toBe('finished')
})

it.each([
  ['one of them succeeds', (row: number) => (row === 7 ? rewarded(0) : boom)],
  ['they fail for two reasons', (row: number) => (row === 7 ? failedWorkflow('late') : boom)],
  [
    'they are thrown at two places',
    (row: number) =>
      failedWorkflow(`thrown by run() at my agent/main.ts:${row === 7 ? 5 : 17}: no`),
  ],
])('a run continues when %s of the first 20', async (_, end) => {
  let row = 0
  const { status, pending } = await evaluate(30, () => end((row += 1)))
  expect([status, pending]).toEqual(['finished', 0])
})

it('the same place is the same failure, whatever is said there', async () => {
  let row = 0
  const words = ['one', 'two', 'three']
  const { pending } = await evaluate(30, () => {
    row += 1
    return failedWorkflow(`thrown by run() at main.ts:17: no city ${words[row % 3]}`)
  })
  expect(pending).toBe(10)
})

it.each([
  [3, 3],
  [0.25, 10],
])('failOnError %d stops a run of 40 after %i failures', async (failOnError, most) => {
  let row = 0
  const end = (): typeof boom => (++row % 2 === 0 ? rewarded(1) : boom)
  const { status, incompleteReason, model } = await evaluate(40, end, { failOnError })
  expect([status, model.summary.failed]).toEqual(['incomplete', most])
  expect(incompleteReason).toMatch(
    new RegExp(
      `^${most} of ${2 * most - 1} rollouts have failed, most recently with agent_error: `,
    ),
  )
})
