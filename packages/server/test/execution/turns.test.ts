import { defineWorkflowConfig } from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { expect, it, onTestFinished } from 'vitest'

import { registerSamples, run, workflow } from '../../../../test/kit/executed-rollouts.ts'

it('requests are read between any two workflows that block at their start', async () => {
  const turns = await turnsOfBeginnings(8, 5)
  expect(new Set(turns).size).toBe(8)
})

it('workflows that do not block at their start share a turn of the event loop', async () => {
  const turns = await turnsOfBeginnings(200, 0)
  expect(new Set(turns).size).toBeLessThan(100)
})

/** The turn of the event loop in which each of the workflows starts, when all are submitted at once. */
async function turnsOfBeginnings(count: number, blockedMs: number): Promise<number[]> {
  let turn = 0
  let next = setImmediate(function pass() {
    turn += 1
    next = setImmediate(pass)
  })
  onTestFinished(() => clearImmediate(next))
  const turns: number[] = []
  const backend = new LocalBackend({
    workflowConfig: defineWorkflowConfig({ name: 'w' }),
    workflow: workflow(async () => {
      turns.push(turn)
      registerSamples('main')
      const until = performance.now() + blockedMs
      while (performance.now() < until);
    }),
  })
  await Promise.all(
    Array.from({ length: count }, async (_, n) =>
      run(backend, { rolloutId: `r${n}`, grade: false }),
    ),
  )
  return turns
}
