import { withPrograms, post, startServerProcess } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { killDuringDelivery, alone, script } from './server-processes.ts'
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
  'rollouts of a killed server end, and other servers deliver their outcomes',
  { tags: 'slow' },
  async () => {
    const servers = await startServers()
    const { controller } = servers
    const held = Promise.withResolvers<void>()
    controller.answers['completion'] = [
      (response) => {
        held.promise.then(() => response.writeHead(200).end()).catch(() => {})
      },
    ]
    const doomed = await alone(servers, { rollout_id: 'graded' })
    await post(
      `${doomed.url}/rollout`,
      controller.rolloutBody({ rollout_id: 'ungraded', grader_callback_url: null }),
    )
    await controller.until(() => controller.callbacks.length > 0)
    await doomed.end()
    held.resolve()

    const { url } = await servers.startServer()
    const status = async (id: string): Promise<unknown> =>
      (await fetch(`${url}/rollout/${id}/status`)).json()
    await expect
      .poll(async () => status('graded'), { timeout: 20_000 })
      .toMatchObject({ status: 'success', reward: 1 })
    expect(await status('ungraded')).toMatchObject({ status: 'success', reward: null })
    await expect
      .poll(async () => (await fetch(`${url}/health`)).json(), { timeout: 20_000 })
      .toMatchObject({ undelivered: 0 })
    const bodies = controller.callbacks.map(({ body }) => JSON.stringify(body))
    expect(new Set(bodies).size).toBe(3)
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

it(
  'each rollout has one outcome, delivered by the remaining servers, when one is killed',
  { tags: 'slow' },
  async () => {
    const servers = await startServers()
    const { a, b, redis, controller } = servers
    await a.close()
    const doomed = await startServerProcess(script, { REDIS_URL: redis.url })
    const ids = Array.from({ length: 50 }, (_, n) => `r${n}`)
    await Promise.all(
      ids.map(async (rollout_id, n) => {
        const body = controller.rolloutBody({ rollout_id })
        expect((await post(`${n % 2 ? doomed.url : b.url}/rollout`, body)).status).toBe(202)
      }),
    )
    await controller.until(() => controller.callbacks.length > 20)
    await doomed.end()

    await expect
      .poll(async () => b.get('/health'), { timeout: 20_000 })
      .toMatchObject({ undelivered: 0, concurrency: { queued: 0, running: 0 } })
    await controller.until(() => endsOf(controller).size === 100)
    for (const bodies of endsOf(controller).values()) expect(bodies.size).toBe(1)
    for (const id of ids) {
      expect(await b.get(`/rollout/${id}/status`)).toMatchObject({ status: 'success', reward: 1 })
    }
    expect(controller.policyHeaders).toHaveLength(50)
  },
)

/** The delivered bodies by `idempotency-key`: more than one body would be a contradiction. */
function endsOf({ callbacks }: ServersUnderTest['controller']): Map<string, Set<string>> {
  const ends = new Map<string, Set<string>>()
  for (const { headers, body } of callbacks) {
    const key = String(headers['idempotency-key'])
    ends.set(key, (ends.get(key) ?? new Set()).add(JSON.stringify(body)))
  }
  return ends
}
