import { post, type TestServerProcess, startServerProcess } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { startServers, type ServersUnderTest } from './servers-under-test.ts'

/** A server process. */
const script = new URL('./server-process.ts', import.meta.url)

/** A server process accepts a rollout, and is the only server until it is killed. */
export async function alone(
  servers: ServersUnderTest,
  fields: Record<string, unknown> = {},
): Promise<TestServerProcess> {
  const { a, b, redis, controller } = servers
  await Promise.all([a.close(), b.close()])
  const doomed = await startServerProcess(script, { REDIS_URL: redis.url })
  const accepted = await post(`${doomed.url}/rollout`, controller.rolloutBody(fields))
  expect(accepted.status).toBe(202)
  return doomed
}

/** Kills a server while it waits for the answer to a callback. Resolves with the last callback of another server. */
export async function killDuringDelivery(kind: 'completion' | 'grader'): Promise<unknown> {
  const servers = await startServers()
  const { controller } = servers
  controller.answers[kind] = [() => {}]
  // Conversations are not stored with each body that repeats them.
  const content = '“Is it?” '.repeat(500)
  const doomed = await alone(servers, { initial_messages: [{ role: 'user', content }] })
  await controller.until(() => controller.callbacks.some((callback) => callback.kind === kind))
  await doomed.end()
  const tried = controller.callbacks.at(-1)

  await servers.startServer()
  await controller.until(() => controller.events.includes('grader 200'))
  const same = controller.callbacks.filter((callback) => callback.kind === kind)
  expect(same).toHaveLength(2)
  expect(same[1]?.body).toStrictEqual(tried?.body)
  expect(same[1]?.headers['idempotency-key']).toBe(`r1/${kind}`)
  expect(controller.policyHeaders).toHaveLength(1)
  return controller.callbacks.at(-1)?.body
}
