import type { ServerResponse } from 'node:http'

import type { CallbackRetryOptions } from '@osmosis/server'
import type { Callback } from '@osmosis/server/protocols'
import { describe, expect, it } from 'vitest'

import {
  type CallbackAnswer,
  FakeController,
  type LogLine,
  recordingLogger,
  sendJson,
  startPolicyEndpoint,
} from '../../../test/kit/index.ts'
import { CallbackDelivery } from '../src/delivery/callback-delivery.ts'
import { graderOf, startServer } from './running-server.ts'

const reset = (response: ServerResponse): void => {
  response.socket?.destroy()
}
const halfAnswer = (response: ServerResponse): void => {
  response.writeHead(200, { 'content-length': '100' })
  response.write('{"trajec', () => response.socket?.destroy())
}
const askToWait =
  (status: number, seconds: string): CallbackAnswer =>
  (response) =>
    void response.writeHead(status, { 'retry-after': seconds }).end()

const impatient = { minDelayMs: 1, maxDelayMs: 5 }

async function deliverTo(
  answers: CallbackAnswer[],
  options: { retry?: CallbackRetryOptions; apiKey?: string; url?: string } = {},
): Promise<{
  outcome: string
  undelivered: number
  lost: number
  received: FakeController['callbacks']
  log: LogLine[]
}> {
  await using controller = await new FakeController().start()
  const log: LogLine[] = []
  const delivery = new CallbackDelivery({
    retry: { ...impatient, ...options.retry },
    logger: recordingLogger(log),
  })
  controller.answers['completion'] = answers
  const outcome = await delivery.deliver({
    rolloutId: 'r1',
    kind: 'completion',
    url: options.url ?? `${controller.url}/completion`,
    apiKey: options.apiKey ?? null,
    idempotencyKey: 'r1/completion',
    body: '{"status":"success"}',
  })
  const { undelivered, lost } = delivery
  await delivery.close()
  return { outcome, undelivered, lost, received: controller.callbacks, log }
}

describe('delivering a callback', () => {
  it('makes no more attempts than the limit', async () => {
    const { outcome, received } = await deliverTo([500, 500, 500], { retry: { retries: 1 } })

    expect({ outcome, times: received.length }).toStrictEqual({ outcome: 'gave_up', times: 2 })
  })

  it.each([200, 202, 204])('accepts %i as an acknowledgement', async (status) => {
    const { outcome, undelivered, received } = await deliverTo([status])

    expect({ outcome, undelivered, times: received.length }).toStrictEqual({
      outcome: 'acknowledged',
      undelivered: 0,
      times: 1,
    })
  })

  it.each<[string, CallbackAnswer]>([
    ['408', 408],
    ['425', 425],
    ['429', 429],
    ['500', 500],
    ['503', 503],
    ['a reset', reset],
    ['429 with Retry-After', askToWait(429, '0.01')],
    ['503 with a Retry-After that makes no sense', askToWait(503, 'soon')],
  ])('tries again after %s, with the same key and body', async (_, answer) => {
    const { outcome, undelivered, received } = await deliverTo([answer, answer])

    expect({ outcome, undelivered }).toStrictEqual({ outcome: 'acknowledged', undelivered: 0 })
    expect(received.map(({ headers, body }) => [headers['idempotency-key'], body])).toStrictEqual(
      Array.from({ length: 3 }, () => ['r1/completion', { status: 'success' }]),
    )
  })

  it.each([302, 400, 401, 404, 409, 422])('does not retry after %i', async (status) => {
    const { outcome, undelivered, lost, received } = await deliverTo([status])

    expect({ outcome, undelivered, lost, times: received.length }).toStrictEqual({
      outcome: 'refused',
      undelivered: 0,
      lost: 1,
      times: 1,
    })
  })

  it('does not follow a redirect, which would carry the key elsewhere', async () => {
    const { outcome, received } = await deliverTo([
      (response) => void response.writeHead(307, { location: '/grader' }).end(),
    ])

    expect({ outcome, kinds: received.map(({ kind }) => kind) }).toStrictEqual({
      outcome: 'refused',
      kinds: ['completion'],
    })
  })

  it('accepts the status as the answer when the body is incomplete', async () => {
    const { outcome, received } = await deliverTo([halfAnswer])

    expect({ outcome, times: received.length }).toStrictEqual({
      outcome: 'acknowledged',
      times: 1,
    })
  })

  it('accepts the status as the answer when the body never ends', async () => {
    const { outcome, received } = await deliverTo(
      [(response) => void response.writeHead(200, { 'content-length': '100' }).write('{')],
      // An attempt that takes longer to get its status is another one.
      { retry: { attemptTimeoutMs: 1500 } },
    )

    expect({ outcome, times: received.length }).toStrictEqual({
      outcome: 'acknowledged',
      times: 1,
    })
  })

  it('waits as long as the receiver requests', async () => {
    const start = performance.now()
    await deliverTo([askToWait(429, '0.3')])

    expect(performance.now() - start).toBeGreaterThan(290)
  })

  it('retries an attempt without an answer in time', async () => {
    const { outcome, received } = await deliverTo([() => undefined], {
      retry: { attemptTimeoutMs: 1500 },
    })

    expect({ outcome, times: received.length }).toStrictEqual({
      outcome: 'acknowledged',
      times: 2,
    })
  })

  it('decides by the status alone, and ignores x-should-retry of a proxy', async () => {
    const tryAgain = (status: number, header: string) => (response: ServerResponse) =>
      response.writeHead(status, { 'x-should-retry': header }).end()
    const passing = await deliverTo([tryAgain(503, 'false')])
    const final = await deliverTo([tryAgain(409, 'true')])

    expect([passing.outcome, final.outcome]).toStrictEqual(['acknowledged', 'refused'])
  })

  it('gives up after its deadline', async () => {
    const { outcome, undelivered, lost, received, log } = await deliverTo(
      Array.from({ length: 100_000 }, () => 503),
      { retry: { budgetMs: 1000, minDelayMs: 100, maxDelayMs: 100 } },
    )

    expect({ outcome, undelivered, lost }).toStrictEqual({
      outcome: 'gave_up',
      undelivered: 0,
      lost: 1,
    })
    expect(received.length).toBeGreaterThan(1)
    expect(log.at(-1)).toStrictEqual({
      level: 'error',
      message: 'callback not delivered',
      fields: {
        rollout_id: 'r1',
        callback: 'completion',
        attempts: received.length,
        outcome: 'gave_up',
        reason: expect.stringMatching(/^The receiver answered 503 \(http:\S+\/completion\)$/),
      },
    })
  })

  it('omits the query of a URL, which may contain a key, from its log', async () => {
    const url = 'http://127.0.0.1:1/completion?key=planted-key'
    const { log } = await deliverTo([], { url, retry: { retries: 0 } })

    expect(log.at(-1)?.fields['reason']).toMatch(
      /^No answer from the receiver: .* \(http:\/\/127\.0\.0\.1:1\/completion\)/,
    )
    expect(JSON.stringify(log)).not.toContain('planted-key')
  })

  it('gives up callbacks that are being sent when it is closed', async () => {
    await using controller = await new FakeController().start()
    const delivery = new CallbackDelivery({ logger: recordingLogger([]) })
    controller.answers['completion'] = [() => undefined]
    const outcome = delivery.deliver({
      rolloutId: 'r1',
      kind: 'completion',
      url: `${controller.url}/completion`,
      apiKey: null,
      idempotencyKey: 'r1/completion',
      body: '{}',
    })
    await controller.bodies(1)

    expect(delivery.undelivered).toBe(1)
    await delivery.close()
    expect(await outcome).toBe('gave_up')
  })

  it('sends at most 256 requests to one receiver at a time, and the others in turn', async () => {
    await using controller = await new FakeController().start()
    await using other = await new FakeController().start()
    const delivery = new CallbackDelivery({ logger: recordingLogger([]) })
    const held: ServerResponse[] = []
    controller.otherwise = () => (response) => void held.push(response)
    const callback = (rolloutId: string, { url }: FakeController): Callback => ({
      rolloutId,
      kind: 'completion',
      url: `${url}/completion`,
      apiKey: null,
      idempotencyKey: `${rolloutId}/completion`,
      body: '{}',
    })
    const outcomes = Array.from({ length: 300 }, async (_, n) =>
      delivery.deliver(callback(`r${n}`, controller)),
    )
    await controller.until(() => held.length === 256)
    // Another receiver does not wait for them.
    expect(await delivery.deliver(callback('other', other))).toBe('acknowledged')
    for (let answered = 0; answered < 300; answered += 1) {
      await controller.until(() => held.length > answered)
      held[answered]?.end()
      expect(held.length - answered).toBeLessThanOrEqual(256)
    }
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['acknowledged']))
    await delivery.close()
  })

  it('sends the key as bearer, and no authorization header without one', async () => {
    const withKey = await deliverTo([], { apiKey: 'controller-key' })
    const without = await deliverTo([], {})
    const empty = await deliverTo([], { apiKey: '' })

    expect(withKey.received[0]?.headers).toMatchObject({
      authorization: 'Bearer controller-key',
      'content-type': 'application/json',
    })
    expect(without.received[0]?.headers).not.toHaveProperty('authorization')
    expect(empty.received[0]?.headers).not.toHaveProperty('authorization')
  })

  it('refuses a callback that cannot be sent, without a retry', async () => {
    const { outcome, received } = await deliverTo([], { apiKey: 'line\nbreak' })

    expect({ outcome, times: received.length }).toStrictEqual({ outcome: 'refused', times: 0 })
  })
})

describe('callbacks of a rollout', () => {
  it('have the completion acknowledged before grading starts', async () => {
    await using running = await startServer({
      grader: graderOf((ctx) => {
        running.controller.note('grading')
        ctx.setReward(1)
      }),
    })
    const { controller } = running
    controller.answers['completion'] = [503, 500]
    await running.post()
    await controller.bodies()
    await controller.until(() => controller.events.includes('grader 200'))

    expect(controller.events.filter((event) => !event.startsWith('policy'))).toStrictEqual([
      'completion 503',
      'completion 500',
      'completion 200',
      'grading',
      'grader 200',
    ])
  })

  it.each([
    ['completion', 400],
    ['completion', 404],
    ['completion', 302],
    ['grader', 400],
    ['grader', 409],
  ])(
    'send each result once, and none that contradicts it, when the %s was answered %i',
    async (kind, status) => {
      await using running = await startServer()
      const { controller, server } = running
      controller.answers[kind] = [status]
      await running.post()
      await server.drain()

      expect(controller.callbacks.map((callback) => [callback.kind, callback.body])).toStrictEqual([
        ['completion', expect.objectContaining({ status: 'success' })],
        ['grader', expect.objectContaining({ status: 'success' })],
      ])
      expect(server.undelivered).toBe(0)
      expect(running.log.at(-1)?.fields).toMatchObject({ undelivered: 0, lost: 1 })
    },
  )

  it('repeat the same body with the same idempotency key, one for each kind', async () => {
    await using running = await startServer()
    const { controller, server } = running
    controller.answers['completion'] = [503, reset]
    controller.answers['grader'] = [reset, 429]
    await running.post()
    await controller.until(() => controller.events.includes('grader 200'))
    await server.drain()

    const seen = controller.callbacks.map(({ headers, body }) =>
      JSON.stringify([headers['idempotency-key'], headers.authorization, body]),
    )
    expect(seen).toHaveLength(6)
    expect(new Set(seen.slice(0, 3)).size).toBe(1)
    expect(new Set(seen.slice(3)).size).toBe(1)
    expect(seen[0]).toContain('["r1/completion","Bearer controller-key",')
    expect(seen[3]).toContain('["r1/grader","Bearer controller-key",')
  })

  it('hold no slot while a controller is slow to acknowledge', async () => {
    await using running = await startServer({ maxConcurrent: 1 })
    const { controller } = running
    const held: ServerResponse[] = []
    controller.answers['completion'] = [(response) => void held.push(response)]
    await running.post({ rollout_id: 'slow' })
    await controller.until(() => held.length === 1)
    await running.post({ rollout_id: 'next' })

    await controller.until(() => controller.callbacks.length === 3)
    expect(controller.callbacks.map(({ headers }) => headers['idempotency-key'])).toStrictEqual([
      'slow/completion',
      'next/completion',
      'next/grader',
    ])
    for (const response of held) response.end()
    await controller.until(() => controller.callbacks.length === 4)
  })

  it('are counted as undelivered until they are acknowledged or refused', async () => {
    await using running = await startServer()
    const { controller, url } = running
    const held: ServerResponse[] = []
    controller.answers['grader'] = [(response) => void held.push(response)]
    await running.post()
    await controller.until(() => held.length === 1)
    const undelivered = async (): Promise<unknown> =>
      ((await (await fetch(`${url}/health`)).json()) as { undelivered: number }).undelivered

    expect(await undelivered()).toBe(1)
    for (const response of held) response.end()
    await expect.poll(undelivered).toBe(0)
    controller.answers['grader'] = [404]
    await running.post({ rollout_id: 'refused' })
    await controller.until(() => controller.callbacks.length === 4)
    await expect.poll(undelivered).toBe(0)
  })

  it('name the field whose key the policy refuses', async () => {
    const policy = await startPolicyEndpoint((response) => sendJson(response, 401, {}))
    await using running = await startServer()
    const { controller } = running
    const base = { chat_completions_url: policy.url, grader_callback_url: null }
    await running.post({ ...base, rollout_id: 'own', llm_api_key: 'llm-key' })
    await running.post({ ...base, rollout_id: 'shared' })
    await running.post({ ...base, rollout_id: 'open', controller_api_key: null })
    await controller.until(() => controller.callbacks.length === 3)
    const messages = controller.callbacks.map(({ body }): [unknown, unknown] => {
      const { rollout_id: id, err_message: message } = body as Readonly<Record<string, unknown>>
      return [id, /\. (.*) \(http/.exec(String(message))?.[1]]
    })
    expect(Object.fromEntries(messages)).toStrictEqual({
      own: 'Check the API key that the rollout was sent with (llm_api_key).',
      shared: 'Check the API key that the rollout was sent with (controller_api_key).',
      open: 'The rollout was sent without an API key (llm_api_key).',
    })
  })

  it('give the policy llm_api_key, and controller_api_key when that is absent', async () => {
    await using running = await startServer()
    const { controller } = running
    await running.post({ rollout_id: 'own', llm_api_key: 'llm-key' })
    await running.post({ rollout_id: 'shared' })
    await running.post({ rollout_id: 'open', controller_api_key: null })
    await controller.until(() => controller.callbacks.length === 6)

    const keys = controller.policyHeaders.map((headers) => [
      headers['x-rollout-id'],
      headers.authorization,
    ])
    expect(Object.fromEntries(keys)).toStrictEqual({
      own: 'Bearer llm-key',
      shared: 'Bearer controller-key',
      open: undefined,
    })
  })
})

describe('a stored callback', () => {
  const callback: Callback = {
    rolloutId: 'r1',
    kind: 'completion',
    url: 'http://127.0.0.1:1/completion',
    apiKey: null,
    idempotencyKey: 'r1/completion',
    body: '{"status":"failure"}',
  }

  it('is sent as it was first stored, and its acknowledgement is passed on', async () => {
    await using controller = await new FakeController().start()
    const delivery = new CallbackDelivery({ logger: recordingLogger([]) })
    const first = { ...callback, url: `${controller.url}/completion`, body: '{"status":"success"}' }
    const outcomes: string[] = []
    const record = {
      store: async () => first,
      settle: async (_: Callback, outcome: string) => void outcomes.push(outcome),
    }
    const acknowledged: string[] = []
    const onAcknowledged = (body: string): void => void acknowledged.push(body)

    expect(await delivery.deliver({ ...callback, onAcknowledged }, { record })).toBe('acknowledged')
    expect(await controller.bodies(1)).toStrictEqual([{ status: 'success' }])
    expect({ outcomes, acknowledged }).toStrictEqual({
      outcomes: ['acknowledged'],
      acknowledged: [''],
    })
    await delivery.close()
  })

  it('is not sent again when it has an outcome', async () => {
    const delivery = new CallbackDelivery({ logger: recordingLogger([]) })
    const record = {
      store: async () => undefined,
      settle: async () => expect.unreachable('there was nothing to deliver'),
    }

    expect(await delivery.deliver(callback, { record })).toBe('acknowledged')
    expect(delivery.undelivered).toBe(0)
    await delivery.close()
  })
})
