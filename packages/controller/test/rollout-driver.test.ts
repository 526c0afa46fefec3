import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'

import { createController, scriptedPolicy } from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'
import { describe, expect, it } from 'vitest'

import { callPolicy, complete, grade, startRolloutServer } from './fake-rollout-server.ts'

const policy = scriptedPolicy(() => 'ok')
const ok = [200, { ok: true }]

describe('run', () => {
  it('sends every key, nulls included', async () => {
    await using server = await startRolloutServer()
    await using controller = await createController({
      policy,
      server: { url: server.url, apiKey: 'server-key' },
      callbackToken: 'callback-token',
      policyToken: 'policy-token',
    })
    const running = controller.run({
      rolloutId: 'row 1',
      initialMessages: [{ role: 'user', content: '2 x 2?' }],
    })
    const order = await server.order(0)
    await grade(order)
    await running
    const base = `${controller.url}/v1/rollouts/row%201`
    expect(order).toStrictEqual({
      rollout_id: 'row 1',
      initial_messages: [{ role: 'user', content: '2 x 2?' }],
      label: null,
      metadata: null,
      chat_completions_url: base,
      controller_api_key: 'callback-token',
      llm_api_key: 'policy-token',
      completion_callback_url: `${base}/completion`,
      grader_callback_url: `${base}/grader`,
      agent_timeout_sec: null,
      grader_timeout_sec: null,
      extra_fields: null,
    })
    expect(server.authorization).toStrictEqual(['Bearer server-key'])
  })

  it('sends everything an order says, and no grader callback URL without grading', async () => {
    await using server = await startRolloutServer()
    await using controller = await createController({ policy, server: { url: `${server.url}/` } })
    const running = controller.run({
      initialMessages: [],
      label: '4',
      metadata: { row: 1 },
      extraFields: { row_index: 3 },
      agentTimeoutSeconds: 1.5,
      graderTimeoutSeconds: 0,
      grade: false,
    })
    const order = await server.order(0)
    await complete(order)
    await running
    expect(order).toMatchObject({
      rollout_id: expect.stringMatching(/^[0-9a-f]{32}$/) as string,
      initial_messages: [],
      label: '4',
      metadata: { row: 1 },
      extra_fields: { row_index: 3 },
      agent_timeout_sec: 1.5,
      grader_timeout_sec: 0,
      grader_callback_url: null,
    })
    expect(server.authorization).toStrictEqual([undefined])
  })

  it('resolves with everything the callbacks and the policy calls brought', async () => {
    await using server = await startRolloutServer()
    await using controller = await createController({ policy, server: { url: server.url } })
    const running = controller.run({ rolloutId: 'r1', initialMessages: [] })
    const order = await server.order(0)
    await (await callPolicy(order)).text()
    await complete(order, { rollout_id: 'r1', status: 'success', extra_fields: { note: 1 } })
    const sampling = { temperature: 1 }
    const call = { id: 'c1', version: 'policy-3', purpose: 'agent', trainable: true, sampling }
    await grade(order, {
      rollout_id: 'r1',
      status: 'success',
      samples: {
        main: {
          id: 'main',
          messages: [{ role: 'user' }],
          label: 'L',
          reward: 0.5,
          remove_sample: false,
          metrics: { tries: 2 },
          extra_fields: { stored: true },
        },
        spare: { id: 'spare', messages: [], remove_sample: true },
      },
      extra_fields: { calls: { main: [{ ...call, step_reward: 0.25 }] } },
    })
    expect(await running).toStrictEqual({
      rolloutId: 'r1',
      status: 'success',
      samples: new Map([
        [
          'main',
          {
            id: 'main',
            messages: [{ role: 'user' }],
            label: 'L',
            reward: 0.5,
            removeSample: false,
            metrics: { tries: 2 },
            extraFields: { stored: true },
            calls: [{ ...call, stepReward: 0.25 }],
          },
        ],
        [
          'spare',
          {
            id: 'spare',
            messages: [],
            label: null,
            reward: null,
            removeSample: true,
            metrics: {},
            extraFields: {},
            calls: [],
          },
        ],
      ]),
      errorMessage: null,
      errorCategory: null,
      completion: {
        status: 'success',
        errorMessage: null,
        errorCategory: null,
        extraFields: { note: 1 },
      },
      gradingMs: expect.any(Number) as number,
      policyCalls: 1,
      usage: { promptTokens: 1, completionTokens: 1, totalTokens: 2 },
      durationMs: expect.any(Number) as number,
    })
  })

  it('takes a sample without an id from servers that only ever have one', async () => {
    await using server = await startRolloutServer()
    await using controller = await createController({ policy, server: { url: server.url } })
    const running = controller.run({ initialMessages: [] })
    await grade(await server.order(0), { status: 'success', sample: { messages: [], reward: 1 } })
    const { samples } = await running
    expect([...samples].map(([name, { id, reward }]) => [name, id, reward])).toStrictEqual([
      ['sample', 'sample', 1],
    ])
  })

  it.each([
    ['the server is full', 429],
    ['the server is draining', 503],
  ])('repeats the same order after Retry-After while %s', async (_when, status) => {
    const sentAt: number[] = []
    await using server = await startRolloutServer((_order, n) => {
      sentAt.push(performance.now())
      return n < 2 ? { status, headers: { 'retry-after': '0.08' } } : { status: 202 }
    })
    await using controller = await createController({ policy, server: { url: server.url } })
    const running = controller.run({ initialMessages: [] })
    const last = await server.order(2)
    await grade(last)
    const { status: ending, durationMs } = await running
    const [first = 0, second = 0, third = 0] = sentAt
    expect([second - first >= 75, third - second >= 75]).toStrictEqual([true, true])
    // The clock of a rollout starts with the attempt that was admitted.
    expect(performance.now() - first - durationMs).toBeGreaterThanOrEqual(150)
    expect(server.orders).toStrictEqual([last, last, last])
    expect(ending).toBe('success')
  })

  it('takes 200 for an admission', async () => {
    await using server = await startRolloutServer(() => ({ status: 200 }))
    await using controller = await createController({ policy, server: { url: server.url } })
    const running = controller.run({ initialMessages: [] })
    await grade(await server.order(0))
    expect((await running).status).toBe('success')
  })

  it.each([
    [422, '{"detail":[{"msg":"bad"}]}', '[{"msg":"bad"}]'],
    [409, '{"detail":"same id, other body"}', 'same id, other body'],
    [500, 'Internal Server Error', 'Internal Server Error'],
    [302, '', 'empty body'],
  ])(
    'rejects when the server answers %i, with its status and detail',
    async (status, body, detail) => {
      await using server = await startRolloutServer(() => ({ status, body }))
      await using controller = await createController({ policy, server: { url: server.url } })
      await expect(controller.run({ initialMessages: [] })).rejects.toStrictEqual(
        new OsmosisError(
          'protocol_error',
          `POST /rollout was answered with ${status}: ${detail}. Only 202 and 200 accept a rollout, and only 429 and 503 are retried.`,
          { status },
        ),
      )
      expect(server.orders.length).toBe(1)
    },
  )

  it('says what to do when the server refuses the key', async () => {
    await using server = await startRolloutServer(() => ({
      status: 401,
      body: '{"detail":"Unauthorized"}',
    }))
    await using controller = await createController({ policy, server: { url: server.url } })
    await expect(controller.run({ initialMessages: [] })).rejects.toMatchObject({
      code: 'unauthorized',
      status: 401,
      message:
        "POST /rollout was answered with 401: Unauthorized. Pass the rollout server's key as server.apiKey.",
    })
  })

  it('does not retry a server that cannot be reached, and lets the id be used again', async () => {
    const vanished = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => vanished.once('listening', resolve))
    const url = `http://127.0.0.1:${(vanished.address() as AddressInfo).port}`
    await new Promise((resolve) => vanished.close(resolve))
    await using controller = await createController({ policy, server: { url } })
    const order = { rolloutId: 'again', initialMessages: [] }
    for (let attempt = 0; attempt < 2; attempt += 1) {
      await expect(controller.run(order)).rejects.toMatchObject({
        code: 'protocol_error',
        status: undefined,
        message: expect.stringContaining(`POST ${url}/rollout got no answer: `) as string,
        cause: expect.objectContaining({ code: 'ECONNREFUSED' }) as Error,
      })
    }
  })

  it('says where no server answers without the credentials of its URL', async () => {
    const url = 'http://user:secret@127.0.0.1:1'
    await using controller = await createController({ policy, server: { url } })
    await expect(controller.run({ initialMessages: [] })).rejects.toThrow(
      'POST http://127.0.0.1:1/rollout got no answer: ',
    )
  })

  it('keeps the result of a rollout whose admission got lost on the way', async () => {
    await using server = await startRolloutServer(async (order) => {
      await grade(order)
      return { status: 500 }
    })
    await using controller = await createController({ policy, server: { url: server.url } })
    expect((await controller.run({ initialMessages: [] })).status).toBe('success')
  })

  it('does not wait for an admission that comes after the end', async () => {
    const never = Promise.withResolvers<{ status: number }>()
    await using server = await startRolloutServer(async () => never.promise)
    await using controller = await createController({ policy, server: { url: server.url } })
    const running = controller.run({ initialMessages: [] })
    await grade(await server.order(0))
    expect((await running).status).toBe('success')
    never.resolve({ status: 202 })
  })

  it('sends to the server a run names', async () => {
    await using server = await startRolloutServer()
    await using controller = await createController({ policy })
    const running = controller.run({ initialMessages: [] }, { server: { url: server.url } })
    await grade(await server.order(0))
    expect((await running).status).toBe('success')
    await expect(controller.run({ initialMessages: [] })).rejects.toMatchObject({
      code: 'invalid_config',
    })
  })

  it.each([
    [{ rolloutId: 'a/b' }, 'rollout_id'],
    [{ rolloutId: '..' }, 'rollout_id'],
    [{ agentTimeoutSeconds: Infinity }, 'agent_timeout_sec'],
    [{ graderTimeoutSeconds: Number.NaN }, 'grader_timeout_sec'],
  ])('refuses to send %j', async (wrong, field) => {
    await using server = await startRolloutServer()
    await using controller = await createController({ policy, server: { url: server.url } })
    await expect(controller.run({ initialMessages: [], ...wrong })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(field) as string,
    })
    expect(server.orders).toStrictEqual([])
  })

  it('refuses an id that is running or has run', async () => {
    await using server = await startRolloutServer()
    await using controller = await createController({ policy, server: { url: server.url } })
    const order = { rolloutId: 'once', initialMessages: [] }
    const running = controller.run(order)
    await server.order(0)
    await expect(controller.run(order)).rejects.toMatchObject({ code: 'invalid_request' })
    await grade(await server.order(0))
    await running
    await expect(controller.run(order)).rejects.toMatchObject({ code: 'invalid_request' })
    expect(server.orders.length).toBe(1)
  })
})

describe('the deadline of a run', () => {
  it('ends the rollout, tells the server and leaves late callbacks without effect', async () => {
    const committed: string[] = []
    await using server = await startRolloutServer()
    await using controller = await createController({
      policy,
      server: { url: server.url },
      onTerminal: ({ status }) => void committed.push(status),
      onConflict: () => void committed.push('conflict'),
    })
    const result = await controller.run({ rolloutId: 'slow', initialMessages: [], timeoutMs: 20 })
    expect(result).toStrictEqual({
      rolloutId: 'slow',
      status: 'timeout',
      samples: new Map(),
      errorMessage: 'no terminal callback within 0.02 s',
      errorCategory: 'timeout',
      completion: null,
      gradingMs: null,
      policyCalls: 0,
      usage: { promptTokens: 0, completionTokens: 0, totalTokens: 0 },
      durationMs: expect.any(Number) as number,
    })
    expect(server.cancels).toStrictEqual([{ ids: ['slow'] }])
    expect(server.contentTypes).toStrictEqual(['application/json', 'application/json'])
    const order = await server.order(0)
    expect([await complete(order), await grade(order)]).toStrictEqual([ok, ok])
    expect(committed).toStrictEqual(['timeout'])
  })

  it('does not count the wait for a place', async () => {
    await using server = await startRolloutServer(async (order, n) => {
      if (n === 0) return { status: 429, headers: { 'retry-after': '0.1' } }
      await grade(order)
      return { status: 202 }
    })
    await using controller = await createController({ policy, server: { url: server.url } })
    const result = await controller.run({ initialMessages: [], timeoutMs: 50 })
    expect(result.status).toBe('success')
  })

  it('survives a server that refuses to cancel', async () => {
    await using server = await startRolloutServer(undefined, 500)
    await using controller = await createController({ policy, server: { url: server.url } })
    const result = await controller.run({ initialMessages: [], timeoutMs: 0 })
    expect([result.status, server.cancels.length]).toStrictEqual(['timeout', 1])
  })

  it('may lie further away than a timer can count', async () => {
    await using server = await startRolloutServer()
    await using controller = await createController({ policy, server: { url: server.url } })
    const days = 24 * 3_600_000
    const running = controller.run({ initialMessages: [], timeoutMs: 30 * days })
    const order = await server.order(0)
    // A timer that cannot count that far fires after a millisecond.
    await setTimeout(50)
    await grade(order)
    expect((await running).status).toBe('success')
  })

  it('rejects with the error of a commit that failed, and is over all the same', async () => {
    const failure = new Error('disk full')
    let commits = 0
    await using server = await startRolloutServer()
    await using controller = await createController({
      policy,
      server: { url: server.url },
      onTerminal: () => {
        commits += 1
        throw failure
      },
    })
    await expect(controller.run({ initialMessages: [], timeoutMs: 0 })).rejects.toBe(failure)
    expect(await grade(await server.order(0))).toStrictEqual(ok)
    expect(commits).toBe(1)
  })
})

describe('aborting a run', () => {
  it('cancels the rollout and rejects with the reason', async () => {
    const endings: string[] = []
    await using server = await startRolloutServer()
    await using controller = await createController({
      policy,
      server: { url: server.url },
      onTerminal: ({ status }) => void endings.push(status),
    })
    const giveUp = new AbortController()
    const running = controller.run(
      { rolloutId: 'r', initialMessages: [] },
      { signal: giveUp.signal },
    )
    const order = await server.order(0)
    const reason = new Error('enough')
    giveUp.abort(reason)
    await expect(running).rejects.toBe(reason)
    expect(server.cancels).toStrictEqual([{ ids: ['r'] }])
    expect([await complete(order), await grade(order)]).toStrictEqual([ok, ok])
    expect((await callPolicy(order)).status).toBe(410)
    expect(endings).toStrictEqual(['cancelled'])
  })

  it('ends the wait for a place', async () => {
    await using server = await startRolloutServer(() => ({
      status: 429,
      headers: { 'retry-after': '60' },
    }))
    await using controller = await createController({ policy, server: { url: server.url } })
    const giveUp = new AbortController()
    const running = controller.run({ initialMessages: [] }, { signal: giveUp.signal })
    await server.order(0)
    const reason = new Error('enough')
    giveUp.abort(reason)
    await expect(running).rejects.toBe(reason)
  })

  it('beforehand sends nothing', async () => {
    await using server = await startRolloutServer()
    await using controller = await createController({ policy, server: { url: server.url } })
    const reason = new Error('never mind')
    const signal = AbortSignal.abort(reason)
    await expect(controller.run({ initialMessages: [] }, { signal })).rejects.toBe(reason)
    expect([server.orders, server.cancels]).toStrictEqual([[], []])
  })

  it('does not take back an end that is being committed', async () => {
    const committing = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<void>()
    await using server = await startRolloutServer()
    await using controller = await createController({
      policy,
      server: { url: server.url },
      onTerminal: async () => {
        committing.resolve()
        await finish.promise
      },
    })
    const giveUp = new AbortController()
    const running = controller.run({ initialMessages: [] }, { signal: giveUp.signal })
    const acknowledged = grade(await server.order(0))
    await committing.promise
    giveUp.abort(new Error('too late'))
    finish.resolve()
    expect((await running).status).toBe('success')
    expect(await acknowledged).toStrictEqual(ok)
    expect(server.cancels).toStrictEqual([])
  })
})
