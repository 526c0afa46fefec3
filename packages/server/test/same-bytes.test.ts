import type { ServerResponse } from 'node:http'

import { requireRolloutContext, toRolloutSample } from '@osmosis/core'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import {
  FakeController,
  LeaseClient,
  LeaseHandle,
  type PeerRequest,
  storedRollouts,
  temporaryFolder,
} from '../../../test/kit/index.ts'
import { leasing } from './leasing-server.ts'
import { openOutbox, acceptanceOf, callbackOf, found } from './outbox-of-test.ts'
import { graderOf, startServer, workflowOf } from './running-server.ts'

/** A controller that keeps every callback exactly as it came over the wire. */
class ExactController extends FakeController {
  /** By the path of the route: each attempt, as one text. */
  readonly attempts: Record<string, string[]> = {}

  protected override receive(request: PeerRequest, response: ServerResponse): void {
    const { path, raw, headers } = request
    const said = [path, headers['idempotency-key'], headers.authorization, raw]
    ;(this.attempts[path] ??= []).push(said.join('\n'))
    super.receive(request, response)
  }

  get callbackAttempts(): (string[] | undefined)[] {
    return [this.attempts['/completion'], this.attempts['/grader']]
  }
}

/** What JSON can hold, and what it writes in several ways. */
const values = [
  ...fc.sample(fc.jsonValue(), { numRuns: 40, seed: 7 }),
  { b: 1, a: 2, 10: 'ten', 9: 'nine' },
  [0, 1e21, 1e-7, 0.1 + 0.2, 5e-324, 2 ** 53 + 2, -0],
  'é e\u0301 \u2028 \u0000 \ud800 </script> \\ " \u{1F600}',
]

const workflow = workflowOf((ctx) => {
  requireRolloutContext('test').registerSampleSource('main', {
    getSample: (id) =>
      toRolloutSample({
        id,
        messages: [...ctx.prompt, ...values.map((value) => ({ role: 'assistant', extra: value }))],
        extraFields: { values },
        metrics: { third: 1 / 3 },
      }),
  })
})
const grader = graderOf((ctx) => ctx.setReward(0.1 + 0.2))

it('a callback has the same bytes, key and receiver at each attempt, also of later processes', async () => {
  const outboxDir = await temporaryFolder()
  await using controller = await new ExactController().start()
  const shared = { outboxDir, controller, workflow, grader, trajectories: false }
  const refusing = { ...shared, drainSeconds: 0, shutdownGraceSeconds: 0.1 }
  const counts = (): number[] => controller.callbackAttempts.map((all) => all?.length ?? 0)
  const more = async (completions: number, gradings: number): Promise<void> => {
    const [before = 0, also = 0] = counts()
    await controller.until(() => {
      const [now = 0, then = 0] = counts()
      return now >= before + completions && then >= also + gradings
    })
  }
  {
    // Its completion arrives in the end, so that it has a reward to deliver.
    await using first = await startServer(refusing)
    controller.answers['completion'] = [500, 503, 429, 200]
    controller.otherwise = () => 503
    const reported = more(4, 3)
    expect((await first.post()).status).toBe(202)
    await reported
  }
  for (let restarts = 0; restarts < 2; restarts += 1) {
    const again = more(0, 3)
    await using _ = await startServer(refusing)
    await again
  }
  controller.otherwise = () => undefined
  {
    const last = more(0, 1)
    await using _ = await startServer(shared)
    await last
    await expect.poll(async () => storedRollouts(outboxDir)).toEqual([])
  }
  const [completions, gradings] = controller.callbackAttempts.map((all) => new Set(all))
  expect([completions?.size, gradings?.size]).toEqual([1, 1])
  const [grading = ''] = gradings ?? []
  const { sample } = JSON.parse(grading.split('\n').slice(3).join('\n')) as {
    sample: { reward: number; extra_fields: { values: unknown } }
  }
  expect(sample).toMatchObject({ reward: 0.1 + 0.2, metrics: { third: 1 / 3 } })
  expect(sample.extra_fields.values).toEqual(JSON.parse(JSON.stringify(values)))
})

it('an interrupted rollout has the same failure at each attempt, and at the next process', async () => {
  const outboxDir = await temporaryFolder()
  await using controller = await new ExactController().start()
  controller.otherwise = () => 503
  const settings = { outboxDir, controller, drainSeconds: 0, shutdownGraceSeconds: 0 }
  {
    await using first = await startServer({
      ...settings,
      workflow: workflowOf(() => new Promise(() => undefined)),
    })
    await first.post()
  }
  for (let restarts = 0; restarts < 2; restarts += 1) {
    const [before = 0] = [controller.attempts['/completion']?.length]
    await using _ = await startServer(settings)
    await controller.until(() => (controller.attempts['/completion']?.length ?? 0) >= before + 2)
  }
  controller.otherwise = () => undefined
  {
    await using _ = await startServer(settings)
    await expect.poll(async () => storedRollouts(outboxDir)).toEqual([])
  }
  expect(controller.callbackAttempts.map((all) => new Set(all).size)).toEqual([1, 1])
})

it('a callback that was given up is sent with the bytes it had when its request is repeated', async () => {
  await using controller = await new ExactController().start()
  const outboxDir = await temporaryFolder()
  const callbackRetry = { retries: 0 }
  const settings = { outboxDir, controller, workflow, grader, callbackRetry, trajectories: false }
  await using running = await startServer(settings)
  controller.otherwise = () => 503
  await running.post()
  await controller.bodies()
  controller.otherwise = () => undefined
  await expect
    .poll(async () => {
      await running.post()
      return running.server.undelivered
    })
    .toBe(0)
  expect(controller.callbackAttempts.map((all) => new Set(all).size)).toEqual([1, 1])
  expect(controller.callbackAttempts.every((all = []) => all.length > 1)).toBe(true)
})

it('the callback that was stored first is the one that is sent, whatever is built later', async () => {
  const folder = await temporaryFolder()
  {
    await using first = await openOutbox(folder)
    const record = await first.outbox.accept(acceptanceOf('r1'))
    const stored = callbackOf('r1', 'completion', 'first')
    expect((await record.store(stored, []))?.body).toBe('first')
    expect((await record.store(callbackOf('r1', 'completion', 'second'), []))?.body).toBe('first')
    expect(record.undelivered.map(({ body }) => body)).toEqual(['first'])
  }
  expect(await found(folder)).toEqual({ r1: ['completion first'] })
})

it('a leased result has the same bytes for each reader, and at the next process', async () => {
  const outboxDir = await temporaryFolder()
  const settings = { outboxDir, workflow, grader, trajectories: false }
  const read = new Set<string>()
  let handle: LeaseHandle
  {
    await using first = await leasing(settings)
    handle = await first.start()
    read.add((await handle.until()).text)
    for (let polls = 0; polls < 3; polls += 1) read.add((await handle.once()).text)
  }
  for (let restarts = 0; restarts < 2; restarts += 1) {
    await using next = await leasing(settings)
    const again = new LeaseHandle(new LeaseClient(next), handle.accepted)
    for (let polls = 0; polls < 2; polls += 1) read.add((await again.once()).text)
  }
  expect(read.size).toBe(1)
})
