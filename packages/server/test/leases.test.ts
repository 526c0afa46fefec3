import { requireRolloutContext, toRolloutSample } from '@osmosis/core'
import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import { post, statusAndBody } from '../../../test/kit/index.ts'
import { leasing } from './leasing-server.ts'
import { AskOnce, askPolicy, graderOf, workflowOf } from './running-server.ts'

const hanging = workflowOf(() => new Promise(() => undefined))
const soon = { waitSeconds: 0.05, leaseSeconds: 0.2, retentionSeconds: 900 }

describe('a leased rollout', () => {
  it('is accepted with its lease, and answered with its sample, each time with the same bytes', async () => {
    await using running = await leasing()
    const { accepted } = await running.start({ rollout_id: 'first' })
    expect(accepted).toStrictEqual({
      rollout_id: 'first',
      status: 'queued',
      polling_lease_token: expect.stringMatching(/^[\w-]{43}$/),
      result_wait_timeout_sec: 30,
      polling_lease_timeout_sec: 120,
    })

    const handle = await running.start()
    const { text } = await handle.until()
    expect(JSON.parse(text)).toStrictEqual({
      rollout_id: 'r1',
      status: 'success',
      sample: {
        messages: [
          { role: 'user', content: 'Is it?' },
          { role: 'assistant', content: 'yes' },
        ],
        label: null,
        reward: 1,
        remove_sample: false,
        metrics: {},
        extra_fields: {},
      },
      err_message: null,
      err_category: null,
    })
    expect((await handle.once()).text).toBe(text)
    expect(running.controller.callbacks).toStrictEqual([])
  })

  it('answers a poll at every change of its status', async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const [ran, graded] = gates as [PromiseWithResolvers<void>, PromiseWithResolvers<void>]
    await using running = await leasing({
      maxConcurrent: 1,
      workflow: workflowOf(async (ctx) => {
        await askPolicy(ctx)
        if (ctx.rolloutId === 'r0') await gates[0]?.promise
        else await ran.promise
      }),
      grader: graderOf(async (ctx) => {
        await graded.promise
        ctx.setReward(0.5)
      }),
    })
    const handle = await running.start()
    const running1 = await handle.once()
    const next = handle.once()
    ran.resolve()
    const grading = await next
    const last = handle.once()
    graded.resolve()
    const end = await last

    expect([running1.status, grading.status, end.status]).toStrictEqual([
      'running',
      'grading',
      'success',
    ])
    expect(JSON.parse(grading.text)).toStrictEqual({
      rollout_id: 'r1',
      status: 'grading',
      sample: null,
      err_message: null,
      err_category: null,
    })
    expect(await (await fetch(`${running.url}/rollout/r1/status`)).json()).toMatchObject({
      status: 'success',
      reward: 0.5,
    })
  })

  it('answers a poll with its status when nothing changes during the wait', async () => {
    await using running = await leasing({
      workflow: hanging,
      leases: { waitSeconds: 0.05, leaseSeconds: 60 },
    })
    const handle = await running.start()
    await handle.until((status) => status === 'running')

    expect(await handle.once()).toMatchObject({ status: 'running', sample: null })
  })

  it('has the result of its end, although its code changes the messages later', async () => {
    await using running = await leasing({
      workflow: workflowOf((ctx) => {
        const messages: unknown[] = [...ctx.prompt]
        requireRolloutContext('test').registerSampleSource('main', {
          getSample: (id) => toRolloutSample({ id, messages }),
        })
        const addLate = (): void => {
          if (messages.push('late') < 100) setImmediate(addLate)
        }
        setImmediate(addLate)
      }),
    })
    const handle = await running.start({ grade: false })

    expect(await handle.until()).toMatchObject({
      sample: { messages: [{ role: 'user', content: 'Is it?' }] },
    })
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('out of machines')
      },
      'out of machines',
    ],
    [
      'ends without a result',
      async function* (): AsyncGenerator<never> {},
      'The backend ended the rollout without a result.',
    ],
  ])('fails with internal_error when the backend %s', async (_, execute, err_message) => {
    const backend = new LocalBackend({ workflow: AskOnce })
    backend.execute = execute
    await using running = await leasing({ backend, trajectories: false })
    const handle = await running.start()

    expect(await handle.until()).toMatchObject({
      status: 'failure',
      sample: null,
      err_message,
      err_category: 'internal_error',
    })
  })
})

describe('a lease', () => {
  it('that is not renewed lapses: the rollout is stopped, and a later result is ignored', async () => {
    const release = Promise.withResolvers<void>()
    await using running = await leasing({ leases: soon })
    const { controller, url } = running
    controller.hanging = true
    const handle = await running.start()
    await controller.until(() => controller.openPolicyCalls === 1)
    await controller.until(() => controller.openPolicyCalls === 0)
    release.resolve()

    const { text } = await handle.once()
    expect(JSON.parse(text)).toStrictEqual({
      rollout_id: 'r1',
      status: 'failure',
      sample: null,
      err_message: 'polling lease expired',
      err_category: 'lease_expired',
    })
    await expect
      .poll(async () => (await fetch(`${url}/health`)).json())
      .toMatchObject({ concurrency: { running: 0 }, lifecycle: { active_rollouts: 0 } })
    expect((await handle.once()).text).toBe(text)
    expect(await (await fetch(`${url}/rollout/r1/status`)).json()).toMatchObject({
      status: 'failure',
      err_message: 'polling lease expired',
    })
  })

  it('lapses for a queued rollout, which then never starts', async () => {
    const started: string[] = []
    const release = Promise.withResolvers<void>()
    await using running = await leasing({
      maxConcurrent: 1,
      leases: soon,
      workflow: workflowOf(async (ctx) => {
        started.push(ctx.rolloutId)
        await release.promise
      }),
    })
    await running.post({ rollout_id: 'holds the slot' })
    const handle = await running.start()
    await expect
      .poll(() => running.log.map(({ message }) => message))
      .toContain('polling lease expired')
    release.resolve()

    expect(await handle.once()).toMatchObject({ err_category: 'lease_expired' })
    await running.controller.bodies()
    expect(started).toStrictEqual(['holds the slot'])
  })

  it('is renewed by every poll, and not by one with a wrong token', async () => {
    await using running = await leasing({
      workflow: hanging,
      leases: { waitSeconds: 0.05, leaseSeconds: 1 },
    })
    const [polled, guessed] = await Promise.all([
      running.start({ rollout_id: 'polled' }),
      running.start({ rollout_id: 'guessed' }),
    ])
    const lapsed = (): string[] =>
      running.log
        .filter(({ message }) => message === 'polling lease expired')
        .map(({ fields }) => String(fields['rollout_id']))
    while (lapsed().length === 0) {
      expect((await guessed.read(undefined, 'guess')).status).toBe(403)
      expect((await polled.once()).status).toMatch(/running|queued/)
    }

    expect(lapsed()).toStrictEqual(['guessed'])
  })

  it('ends a poll whose caller disconnected', async () => {
    await using running = await leasing({ workflow: hanging })
    const handle = await running.start()
    await handle.until((status) => status === 'running')
    const disconnected = new AbortController()
    const poll = running.server.fetch(
      new Request(`${running.url}/rollout/r1/result`, {
        headers: { 'x-osmosis-rollout-lease': handle.accepted.polling_lease_token },
        signal: disconnected.signal,
      }),
    )
    disconnected.abort()
    // Otherwise it would wait for 30 s.
    await poll
    await running.client.cancel({ ids: ['r1'] })

    expect(await handle.until()).toMatchObject({ status: 'cancelled' })
  })
})

describe('cancelling a leased rollout', () => {
  it('gets the same answer each time, and the result reports whether it had started', async () => {
    await using running = await leasing({ maxConcurrent: 1, workflow: hanging })
    const runs = await running.start({ rollout_id: 'runs' })
    const waits = await running.start({ rollout_id: 'waits' })
    await runs.until((status) => status === 'running')
    const ids = ['waits', 'runs', 'unknown']
    const expected = {
      waits: 'cancelled_queued',
      runs: 'cancelled_running',
      unknown: 'not_found',
    }

    expect(await running.client.cancel({ ids })).toStrictEqual(expected)
    expect(await running.client.cancel({ ids })).toStrictEqual(expected)
    const cancelled = { status: 'cancelled', sample: null, err_category: null }
    expect(await runs.until()).toMatchObject({ ...cancelled, err_message: 'cancelled' })
    expect(await waits.until()).toMatchObject({ ...cancelled, err_message: null })
    expect(await running.client.cancel({ ids })).toStrictEqual(expected)
  })

  it('does not cancel one that has ended', async () => {
    await using running = await leasing()
    const handle = await running.start()
    await handle.until()

    expect(await running.client.cancel({ ids: ['r1'] })).toStrictEqual({ r1: 'not_found' })
    expect(await running.client.cancel({ all: true })).toStrictEqual({})
  })

  it('ends one that the backend does not know', async () => {
    const finish = Promise.withResolvers<void>()
    const backend = new LocalBackend({ workflow: AskOnce })
    backend.execute = async function* () {
      await finish.promise
      const outcome = { status: 'success', failure: null, warnings: [] } as const
      yield { type: 'workflow', outcome, samples: new Map() }
    }
    await using running = await leasing({ backend, trajectories: false })
    const handle = await running.start()

    expect(await running.client.cancel({ ids: ['r1'] })).toStrictEqual({ r1: 'cancelled_queued' })
    finish.resolve()
    expect(await handle.until()).toMatchObject({ status: 'cancelled', err_message: null })
  })
})

describe('refusals', () => {
  it('of a request for a result are 401, 422, 404 and 403, in this order', async () => {
    await using running = await leasing({ apiKey: 'server-key', workflow: hanging })
    const { accepted } = await running.start()
    const get = async (id: string, headers: Record<string, string> = {}): Promise<unknown> =>
      statusAndBody(
        await fetch(`${running.url}/rollout/${id}/result`, {
          headers: { authorization: 'Bearer server-key', ...headers },
        }),
      )
    const lease = 'X-Osmosis-Rollout-Lease'

    expect(await get('unknown', { authorization: 'Bearer other' })).toMatchObject({ status: 401 })
    expect(await get('a%2Fb', { [lease]: 'x' })).toMatchObject({ status: 422 })
    expect(await get('unknown')).toStrictEqual({
      status: 422,
      body: {
        detail: [
          { type: 'missing', loc: ['header', 'x-osmosis-rollout-lease'], msg: 'Field required' },
        ],
      },
    })
    expect(await get('unknown', { [lease]: accepted.polling_lease_token })).toStrictEqual({
      status: 404,
      body: { detail: 'unknown rollout_id' },
    })
    expect(await get('r1', { [lease]: 'x' })).toStrictEqual({
      status: 403,
      body: { detail: 'invalid polling lease' },
    })
  })

  it('of a HEAD for a result is 405, because nobody would get the result', async () => {
    await using running = await leasing()
    const handle = await running.start()
    await handle.until()
    const headers = { 'x-osmosis-rollout-lease': handle.accepted.polling_lease_token }
    const url = `${running.url}/rollout/r1/result`
    const { status, headers: answered } = await fetch(url, { method: 'HEAD', headers })
    expect([status, answered.get('allow')]).toStrictEqual([405, 'GET'])
    expect((await fetch(`${running.url}/rollout/r1/status`, { method: 'HEAD' })).status).toBe(200)
  })

  it('of an id that is active or stored are 409, whatever the body and the delivery', async () => {
    await using running = await leasing({ maxConcurrent: 1 })
    const { url } = running
    const handle = await running.start()
    const again = async (): Promise<unknown> =>
      statusAndBody(await post(`${url}/rollout`, running.body()))
    const registered = { status: 409, body: { detail: 'rollout_id is already registered' } }

    expect(await again()).toStrictEqual(registered)
    expect((await running.post()).status).toBe(409)
    await handle.until()
    expect(await again()).toStrictEqual(registered)
    expect((await running.post()).status).toBe(409)
    await running.post({ rollout_id: 'with callbacks' })
    await running.controller.bodies()
    const leased = running.body({ rollout_id: 'with callbacks' })
    expect(await statusAndBody(await post(`${url}/rollout`, leased))).toStrictEqual(registered)
  })

  it('for lack of room come before that of a known id, and after those of the body', async () => {
    await using running = await leasing({ maxConcurrent: 1, maxQueueDepth: 1, workflow: hanging })
    const { url } = running
    await running.start({ rollout_id: 'runs' })
    await running.start({ rollout_id: 'waits' })

    const full = await post(`${url}/rollout`, running.body({ rollout_id: 'runs' }))
    expect(full.headers.get('retry-after')).toBe('5')
    expect(await statusAndBody(full)).toStrictEqual({
      status: 429,
      body: { detail: 'rollout queue is full; retry later' },
    })
    const wrong = await post(`${url}/rollout`, running.body({ rollout_id: '..' }))
    expect(wrong.status).toBe(422)
  })
})

describe('stored results', () => {
  it('are forgotten after their time, and the id is free again', async () => {
    await using running = await leasing({
      leases: { waitSeconds: 0.05, leaseSeconds: 5, retentionSeconds: 0.05 },
    })
    const handle = await running.start()
    await expect.poll(async () => (await handle.read()).status).toBe(404)

    const second = await running.start()
    expect((await handle.read()).status).not.toBe(200)
    expect(second.accepted.polling_lease_token).not.toBe(handle.accepted.polling_lease_token)
  })

  it('fill the server until they are fetched; those fetched a lease ago make room', async () => {
    await using running = await leasing({
      leases: { waitSeconds: 0.05, leaseSeconds: 0.2, maxRetained: 2 },
    })
    const { url } = running
    const first = await running.start({ rollout_id: 'first' })
    await first.until()
    const second = await running.start({ rollout_id: 'second' })
    await second.until()
    const third = running.body({ rollout_id: 'third' })

    await expect.poll(async () => (await post(`${url}/rollout`, third)).status).toBe(202)
    expect((await first.read()).status).toBe(404)
    expect((await second.read()).status).toBe(200)
  })

  it.each([{ maxRetained: 1 }, { maxRetainedBytes: 100 }])(
    'that were not fetched make no room: %j',
    async (bound) => {
      await using running = await leasing({ leases: { ...soon, ...bound } })
      await running.start()
      await expect
        .poll(async () => (await fetch(`${running.url}/health`)).json())
        .toMatchObject({ retained_results: 1 })

      const next = await post(`${running.url}/rollout`, running.body({ rollout_id: 'next' }))
      expect(next.status).toBe(429)
    },
  )

  it.each([
    { leaseSeconds: 30 },
    { waitSeconds: 0 },
    { retentionSeconds: Number.POSITIVE_INFINITY },
    { maxRetained: Number.NaN },
  ])('reject the options %j', async (leases) => {
    await expect(leasing({ leases })).rejects.toMatchObject({ code: 'invalid_config' })
  })
})
