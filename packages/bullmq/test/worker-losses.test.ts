import { withPrograms } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { openQueue } from './queue-under-test.ts'
import { add, startHolding, startWorker } from './worker-processes.ts'

const { it } = withPrograms('redis-server')

it('runs a rollout elsewhere when its worker is killed, but fails it if it had called the policy', async () => {
  const { queue, redis } = await openQueue()
  const policy = await startHolding((id) => id.startsWith('asked'))
  const gate = await startHolding(() => true)
  const first = await startWorker(redis)
  const [asked, unasked] = [1, 2, 3].reduce<string[][]>(
    ([a = [], b = []], n) => [
      [...a, `asked-${n}`],
      [...b, `unasked-${n}`],
    ],
    [],
  ) as [string[], string[]]
  for (const id of asked) await add(queue, id, 'asks', { policy })
  for (const id of unasked) await add(queue, id, 'passes a gate', { policy, gate })
  await Promise.all([policy.waitForRequest(2), gate.waitForRequest(2)])
  await first.end()
  await startWorker(redis)

  for (const id of unasked) {
    await expect.poll(async () => queue.record(id)).toMatchObject({ status: 'success', run: 2 })
  }
  for (const id of asked) {
    await expect
      .poll(async () => queue.record(id))
      .toMatchObject({
        status: 'failure',
        errorMessage: expect.stringMatching(/^the worker was lost after 1 model call;/),
      })
  }
  expect(policy.asked()).toEqual([...asked, ...unasked])
})
