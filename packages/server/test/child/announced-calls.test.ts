import type { StartingModelCall } from '@osmosis/core'
import { expect, it } from 'vitest'

import { openPolicy, runRollout, sharedPool } from './pool-under-test.ts'

const shared = sharedPool()

/** An observer that counts current model calls, and decides which may start. */
function callCounter(mayBegin: (nth: number) => Promise<void> = async () => undefined) {
  const seen: string[] = []
  let going = 0
  const modelCallBegins = async ({ endpoint }: StartingModelCall): Promise<() => void> => {
    seen.push(endpoint)
    going += 1
    const end = (): void => void (going -= 1)
    try {
      await mayBegin(seen.length)
      return end
    } catch (error) {
      end()
      throw error
    }
  }
  return { seen, going: () => going, modelCallBegins }
}

it('notifies the parent of each model call before it is sent, and of its end', async () => {
  const policy = await openPolicy()
  const calls = callCounter(async (nth) => {
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    expect(policy.requests).toHaveLength(nth - 1)
  })
  const { pool } = await shared()
  const { completion } = await runRollout(
    pool,
    'ask ask',
    { chatCompletionsUrl: policy.url },
    calls,
  )
  expect(completion.failure).toBeNull()
  expect(calls.seen).toEqual([1, 2].map(() => `${policy.url}/chat/completions`))
  await expect.poll(calls.going).toBe(0)
})

it('does not send a call that the parent refuses, and fails the rollout with its error', async () => {
  const policy = await openPolicy()
  const { pool } = await shared()
  const calls = callCounter(async () => {
    throw new Error('too many calls')
  })
  const { completion } = await runRollout(pool, 'ask', { chatCompletionsUrl: policy.url }, calls)
  expect(completion.failure?.message).toContain('too many calls')
  expect(policy.requests).toHaveLength(0)
})

it('ends the calls of a worker that has exited, and of a rollout that has ended', async () => {
  const policy = await openPolicy(async () => new Promise<never>(() => undefined))
  const { pool } = await shared()
  const calls = callCounter()
  const asks = { chatCompletionsUrl: policy.url }
  const lost = runRollout(pool, 'ask', asks, calls)
  await expect.poll(() => policy.requests.length).toBe(1)
  for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
  expect((await lost).completion.failure?.message).toMatch(/had called the policy/)
  expect(calls.going()).toBe(0)
  const late = await runRollout(pool, 'ask', { ...asks, agentTimeoutSeconds: 1 }, calls)
  expect(late.completion.failure?.category).toBe('timeout')
  await expect.poll(calls.going).toBe(0)
})
