import { expect } from 'vitest'

import {
  withPrograms,
  post,
  type TestServerProcess,
  startServerProcess,
} from '../../../test/kit/index.ts'
import { startServers, type ServersUnderTest } from './servers-under-test.ts'

const { it } = withPrograms('redis-server')

it('another server continues when one is killed while it waits for the answer to a callback', async () => {
  const body = await killDuringDelivery('completion')
  expect(body).toMatchObject({ status: 'success', sample: { reward: 1 } })
})

it(
  'another server continues when one is killed while it waits for the answer to a grader callback',
  { tags: 'slow' },
  async () => {
    const body = await killDuringDelivery('grader')
    expect(body).toMatchObject({ status: 'success', sample: { reward: 1 } })
  },
)

it(
  'a caller without an answer from a killed server can repeat its request on another one',
  { tags: 'slow' },
  async () => {
    const servers = await startServers({ workers: 0 })
    const { controller } = servers
    const doomed = await alone(servers)
    await doomed.end()
    const b = await servers.startServer()

    expect((await b.post()).status).toBe(202)
    expect((await b.post({ label: 'no' })).status).toBe(409)
    await servers.worker()
    expect(await controller.bodies()).toMatchObject([{ status: 'success' }, { status: 'success' }])
    expect(controller.policyHeaders).toHaveLength(1)
  },
)

/** A server process. */
const script = new URL('./server-process.ts', import.meta.url)

/** A server process accepts a rollout, and is the only server until it is killed. */
async function alone(
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
async function killDuringDelivery(kind: 'completion' | 'grader'): Promise<unknown> {
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
