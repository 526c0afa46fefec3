import { post, type TestServerProcess, startServerProcess } from '@osmosis/testing/kit'
import { expect } from 'vitest'

import { startFronts, type FrontsUnderTest } from './fronts-under-test.ts'

/** A front in a process of its own. */
export const script = new URL('./front-process.ts', import.meta.url)

/** A front that can be killed takes a rollout, and is the only one until it is. */
export async function alone(
  fronts: FrontsUnderTest,
  fields: Record<string, unknown> = {},
): Promise<TestServerProcess> {
  const { a, b, redis, controller } = fronts
  await Promise.all([a.close(), b.close()])
  const doomed = await startServerProcess(script, { REDIS_URL: redis.url })
  const accepted = await post(`${doomed.url}/rollout`, controller.rolloutBody(fields))
  expect(accepted.status).toBe(202)
  return doomed
}

/** Has a front killed while it waits for the answer to a callback; resolves with what another one tells last. */
export async function killWhileTelling(kind: 'completion' | 'grader'): Promise<unknown> {
  const fronts = await startFronts()
  const { controller } = fronts
  controller.answers[kind] = [() => {}]
  // Conversations are not kept with each body that repeats them.
  const content = '“Is it?” '.repeat(500)
  const doomed = await alone(fronts, { initial_messages: [{ role: 'user', content }] })
  await controller.until(() => controller.callbacks.some((callback) => callback.kind === kind))
  await doomed.end()
  const tried = controller.callbacks.at(-1)

  await fronts.front()
  await controller.until(() => controller.events.includes('grader 200'))
  const same = controller.callbacks.filter((callback) => callback.kind === kind)
  expect(same).toHaveLength(2)
  expect(same[1]?.body).toStrictEqual(tried?.body)
  expect(same[1]?.headers['idempotency-key']).toBe(`r1/${kind}`)
  expect(controller.policyHeaders).toHaveLength(1)
  return controller.callbacks.at(-1)?.body
}
