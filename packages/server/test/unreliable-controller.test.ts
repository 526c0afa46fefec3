import type { ServerResponse } from 'node:http'

import type { CallbackAnswer } from '../../../test/kit/index.ts'
import { expect, it } from 'vitest'

import { askPolicy, startServer, workflowOf } from './running-server.ts'

const faults: CallbackAnswer[] = [
  500,
  503,
  408,
  (response: ServerResponse) => void response.socket?.destroy(),
  (response: ServerResponse) => void response.writeHead(429, { 'retry-after': '0.01' }).end(),
  (response: ServerResponse) => {
    response.writeHead(200, { 'content-length': '9' })
    response.write('{', () => response.socket?.destroy())
  },
]

it('loses, doubles and contradicts no result of 90 rollouts although every third answer is a fault', async () => {
  await using running = await startServer({
    maxConcurrent: 50,
    workflow: workflowOf(async (ctx) => {
      await askPolicy(ctx)
      if (ctx.rolloutId.endsWith('7')) throw new Error(`failed ${ctx.rolloutId}`)
    }),
  })
  const { controller, server } = running
  let answered = 0
  controller.otherwise = () => {
    answered += 1
    return answered % 3 === 0 ? faults[(answered / 3) % faults.length] : undefined
  }
  const ids = Array.from({ length: 90 }, (_, index) => `r${index}`)
  await Promise.all(ids.map((rollout_id) => running.post({ rollout_id })))
  await server.drain()

  const bodies = new Map<string, Set<string>>()
  for (const { headers, body } of controller.callbacks) {
    const key = String(headers['idempotency-key'])
    bodies.set(key, (bodies.get(key) ?? new Set()).add(JSON.stringify(body)))
  }
  expect(new Set(bodies.keys())).toStrictEqual(
    new Set(ids.flatMap((id) => [`${id}/completion`, `${id}/grader`])),
  )
  for (const [key, versions] of bodies) {
    expect(versions.size).toBe(1)
    const [body] = versions
    const expected = key.includes('7/') ? 'failure' : 'success'
    expect(JSON.parse(body ?? '')).toMatchObject({ status: expected })
  }
  expect(server.undelivered).toBe(0)
})

it('frees the sockets and slots of 90 rollouts that are cancelled', async () => {
  await using running = await startServer({ maxConcurrent: 60 })
  const { controller, url } = running
  controller.hanging = true
  await Promise.all(
    Array.from({ length: 90 }, (_, index) => running.post({ rollout_id: `r${index}` })),
  )
  await controller.until(() => controller.openPolicyCalls === 60)
  await fetch(`${url}/rollout/cancel`, { method: 'POST', body: '{"all":true}' })
  await controller.until(() => controller.openPolicyCalls === 0)
  await controller.until(() => controller.callbacks.length === 180)

  await expect
    .poll(async () => (await fetch(`${url}/health`)).json())
    .toMatchObject({
      concurrency: { max_concurrent: 60, queued: 0, running: 0 },
      undelivered: 0,
      lifecycle: { active_rollouts: 0 },
    })
  expect(controller.policyHeaders).toHaveLength(60)
})
