import {
  createController,
  scriptedPolicy,
  type Controller,
  type RolloutOutcome,
  type RunOptions,
} from '@osmosis/controller'
import { expect, it, onTestFinished } from 'vitest'

import { json, LeasingServer } from './client/leasing-server.ts'
import { complete, grade, startRolloutServer } from './fake-rollout-server.ts'

const policy = scriptedPolicy(() => 'ok')
const sample = { messages: [], label: '4', reward: 0.5, remove_sample: false, extra_fields: {} }

/** A controller and a server that gives leases, which end with the test. */
async function opened(): Promise<{ server: LeasingServer; controller: Controller }> {
  const server = await new LeasingServer().start()
  const controller = await createController({ policy, server: { url: server.url } })
  onTestFinished(async () => {
    await controller.close()
    await server[Symbol.asyncDispose]()
  })
  return { server, controller }
}

function send(
  controller: Controller,
  options: RunOptions = {},
  timeoutMs: number | null = null,
): Promise<RolloutOutcome> {
  const order = { rolloutId: 'r1', initialMessages: [], label: '4', timeoutMs }
  return controller.run(order, { fetchResult: true, ...options })
}

it('fetches the result of a rollout, and reports its status', async () => {
  const { server, controller } = await opened()
  const seen: string[] = []
  const running = send(controller, { onStatus: (status) => seen.push(status) })
  await server.arrived('result', 1)
  server.set('r1', 'grading')
  await server.arrived('result', 2)
  server.set('r1', 'success', { sample: { ...sample, metrics: { turns: 2 } } })
  const { status, samples, gradingMs } = await running
  expect([status, [...samples]]).toStrictEqual([
    'success',
    [
      [
        'sample',
        {
          id: 'sample',
          messages: [],
          label: '4',
          reward: 0.5,
          removeSample: false,
          metrics: { turns: 2 },
          extraFields: {},
          calls: [],
        },
      ],
    ],
  ])
  expect([seen, gradingMs]).toEqual([['queued', 'grading', 'success'], expect.any(Number)])
  const [order] = server.requests
  expect(order?.body).toMatchObject({ rollout_id: 'r1', label: '4', grade: true })
  expect(order?.body).not.toHaveProperty('completion_callback_url')
})

it('requests a lease once from a server that supports only callbacks', async () => {
  await using server = await startRolloutServer((order) =>
    order.completion_callback_url === undefined
      ? { status: 422, body: '{"detail":[{"loc":["body","completion_callback_url"]}]}' }
      : { status: 202 },
  )
  await using controller = await createController({ policy, server: { url: server.url } })
  const first = send(controller)
  const order = await server.order(1)
  expect(order.rollout_id).toBe('r1')
  await complete(order)
  await grade(order, { status: 'success', samples: { main: { ...sample, id: 'main' } } })
  expect((await first).samples.get('main')?.reward).toBe(0.5)
  const second = controller.run({ initialMessages: [] }, { fetchResult: true })
  await grade(await server.order(2))
  await second
  expect(server.orders.map((one) => one.completion_callback_url !== undefined)).toEqual([
    false,
    true,
    true,
  ])
})

it.each([
  ['running', 'failure'],
  ['grading', 'success'],
])('a rollout that fails after it was %s had a workflow that was a %s', async (phase, workflow) => {
  const { server, controller } = await opened()
  const running = send(controller)
  await server.arrived('result', 1)
  server.set('r1', phase)
  await server.arrived('result', 2)
  server.set('r1', 'failure', { err_message: 'it broke', err_category: 'internal_error' })
  expect(await running).toMatchObject({
    status: 'failure',
    errorMessage: 'it broke',
    errorCategory: 'internal_error',
    completion: { status: workflow },
  })
})

it('a result that is not to be had is an error, and no outcome', async () => {
  const { server, controller } = await opened()
  server.next.result.push(json(404, { detail: 'unknown rollout_id' }))
  await expect(send(controller)).rejects.toMatchObject({
    code: 'protocol_error',
    status: 404,
    message: expect.stringContaining('a load balancer asked another server') as string,
  })
})

it('a rollout whose result is fetched is cancelled at the server, too', async () => {
  const { server, controller } = await opened()
  const giveUp = new AbortController()
  const running = send(controller, { signal: giveUp.signal })
  await server.arrived('result', 1)
  const reason = new Error('enough')
  giveUp.abort(reason)
  await expect(running).rejects.toBe(reason)
  expect(server.count('cancel')).toBe(1)
})

it('a rollout whose result does not come in time has timed out', async () => {
  const { controller } = await opened()
  expect(await send(controller, {}, 200)).toMatchObject({ status: 'timeout' })
})
