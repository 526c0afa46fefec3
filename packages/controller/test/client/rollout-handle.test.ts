import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

import { createRolloutClient } from '@osmosis/controller'
import type { OsmosisError } from '@osmosis/core'
import { describe, expect, it } from 'vitest'

import { connect, cutOff, json, order, resultBody, silence, type Answer } from './leasing-server.ts'

const sample = {
  messages: [{ role: 'user', content: 'Is it?' }],
  label: 'yes',
  reward: 1,
  remove_sample: false,
  metrics: { tokens: 3 },
  extra_fields: {},
}

describe('following a rollout', () => {
  it('sees every phase, and the result as the server gave it', async () => {
    const { server, client } = await connect()
    const handle = await client.run(order)
    const seen: string[] = []
    for (const phase of ['running', 'grading'] as const) {
      const reached = handle.waitFor(phase)
      server.set('r1', phase)
      seen.push((await reached).status)
    }
    const ended = handle.waitFor('completed')
    server.set('r1', 'success', { sample })
    expect(await ended).toStrictEqual({
      rolloutId: 'r1',
      status: 'success',
      sample: {
        messages: sample.messages,
        label: 'yes',
        reward: 1,
        removeSample: false,
        metrics: { tokens: 3 },
        extraFields: {},
      },
      errorMessage: null,
      errorCategory: null,
    })
    expect(seen).toStrictEqual(['running', 'grading'])
    expect(handle).toMatchObject({ status: 'success', done: true })
    expect(handle.latestResult).toBe(await handle.waitFor('running'))
  })

  it('asks again at once while nothing changes, and no more after the end', async () => {
    const { server, client } = await connect()
    server.waitSeconds = 0.01
    const handle = await client.run(order)
    await server.arrived('result', 4)
    server.set('r1', 'failure', { err_message: 'lost', err_category: 'agent_error' })
    const { status, errorMessage, errorCategory } = await handle.waitFor('completed')
    expect([status, errorMessage, errorCategory]).toStrictEqual(['failure', 'lost', 'agent_error'])
    const asked = server.count('result')
    await client.drain()
    expect(server.count('result')).toBe(asked)
  })

  it('presents the lease of its rollout, and the key of the server', async () => {
    const { server, client } = await connect({ apiKey: 'server-key' })
    const id = 'a b%2F'
    const handle = await client.run({ ...order, rolloutId: id })
    await server.arrived('result', 1)
    server.set(id, 'success')
    await handle.waitFor('completed')
    const { method, path, headers } = server.requests.at(-1) ?? {}
    expect([method, path]).toStrictEqual(['GET', '/rollout/a%20b%252F/result'])
    expect(headers).toMatchObject({
      authorization: 'Bearer server-key',
      'x-osmosis-rollout-lease': `lease of ${id}`,
    })
  })

  it('lets skipped phases pass, and takes a sample that could not be written', async () => {
    const { server, client } = await connect()
    const handle = await client.run(order)
    const waits = [handle.waitFor('running'), handle.waitFor('grading')]
    await server.arrived('result', 1)
    server.set('r1', 'success', { sample: { reward: 0.5, label: null, remove_sample: false } })
    expect((await Promise.all(waits)).map(({ status }) => status)).toStrictEqual([
      'success',
      'success',
    ])
    expect(handle.latestResult?.sample).toMatchObject({ messages: [], reward: 0.5 })
  })

  it.each(['queued', 'running', 'grading'])('cancels a rollout that is %s', async (status) => {
    const { server, client } = await connect()
    const handle = await client.run(order)
    server.set('r1', status)
    expect(await handle.cancelAtServer()).toBe('cancelled_running')
    expect(await handle.waitFor('completed')).toMatchObject({
      status: 'cancelled',
      errorMessage: 'cancelled',
    })
    expect(server.count('cancel')).toBe(1)
  })

  it('sends a cancellation once, whatever its result', async () => {
    const { server, client } = await connect()
    const handle = await client.run(order)
    server.next.cancel.push(cutOff, json(200, { dispositions: { other: 'not_found' } }))
    await expect(handle.cancelAtServer()).rejects.toMatchObject({ code: 'protocol_error' })
    await expect(handle.cancelAtServer()).rejects.toThrow('has no disposition of r1')
    expect(server.count('cancel')).toBe(2)
    expect(handle.done).toBe(false)
  })

  it('stops following here alone', async () => {
    const { server, client } = await connect()
    server.waitSeconds = 30
    const handle = await client.run(order)
    const waiting = handle.waitFor('completed')
    await server.arrived('result', 1)
    handle.stopFollowing()
    handle.stopFollowing()
    await expect(waiting).rejects.toMatchObject({ code: 'cancelled' })
    expect(handle.done).toBe(true)
    await client.drain()
    expect(server.count('cancel')).toBe(0)
    expect(server.count('result')).toBe(1)
  })

  it('ends a wait with its signal, and follows on', async () => {
    const { server, client } = await connect()
    const handle = await client.run(order)
    const abort = new AbortController()
    const waiting = handle.waitFor('completed', { signal: abort.signal })
    abort.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    server.set('r1', 'success')
    expect(await handle.waitFor('completed')).toMatchObject({ status: 'success' })
  })

  it('ends with its client, without a message to the server', async () => {
    const { server, client } = await connect()
    server.waitSeconds = 30
    const handle = await client.run(order)
    const waiting = handle.waitFor('completed')
    await server.arrived('result', 1)
    await Promise.all([
      client.close(),
      client.close(),
      expect(waiting).rejects.toMatchObject({ code: 'cancelled' }),
    ])
    const closed = { code: 'cancelled', message: 'The rollout client was closed.' }
    await expect(client.run(order)).rejects.toMatchObject(closed)
    await expect(handle.cancelAtServer()).rejects.toMatchObject(closed)
    expect(server.count('cancel')).toBe(0)
  })
})

describe('a result that is not answered', () => {
  it('is polled until the lease may have expired', async () => {
    const { server, client } = await connect()
    const cutInTheMiddle: Answer = (response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('{"rollout_id"')
      response.socket?.end()
    }
    server.next.result.push(cutOff, cutInTheMiddle, cutOff, cutOff)
    const handle = await client.run(order)
    await server.arrived('result', 5)
    server.set('r1', 'success')
    expect(await handle.waitFor('completed')).toMatchObject({ status: 'success' })
  })

  it('is polled while a proxy answers for a server that restarts', async () => {
    const { server, client } = await connect()
    server.next.result.push(...[502, 503, 504].map((status) => json(status, '<html>')))
    const handle = await client.run(order)
    await server.arrived('result', 4)
    server.set('r1', 'success')
    expect(await handle.waitFor('completed')).toMatchObject({ status: 'success' })
  })

  it('says what a proxy answered until the lease may have expired', async () => {
    const { server, client } = await connect()
    server.leaseSeconds = 2
    server.next.result.push(...Array.from({ length: 1000 }, () => json(502, 'no server')))
    const handle = await client.run(order)
    await expect(handle.waitFor('running')).rejects.toMatchObject({
      code: 'protocol_error',
      message: expect.stringMatching(
        /may have expired\. GET \/rollout\/r1\/result was answered with 502/,
      ),
    })
  })

  it('says what a proxy answered before the request that the end of the lease cut short', async () => {
    const { server, client } = await connect()
    server.leaseSeconds = 2
    server.next.result.push(json(502, 'no server'), silence)
    const handle = await client.run(order)
    await expect(handle.waitFor('running')).rejects.toMatchObject({
      code: 'protocol_error',
      message: expect.stringMatching(/may have expired\. GET \S+ was answered with 502/),
    })
  })

  it('is given up when the lease may have expired, and reports how long the server was silent', async () => {
    const { server, client } = await connect()
    server.leaseSeconds = 2
    server.next.result.push(...Array.from({ length: 1000 }, () => cutOff))
    const handle = await client.run(order)
    await expect(handle.waitFor('running')).rejects.toMatchObject({
      code: 'protocol_error',
      message: expect.stringMatching(
        /^The rollout server did not answer for \d+(\.\d)? s, and its lease of 2 s for "r1" may have expired\. GET http/,
      ),
    })
    expect(handle).toMatchObject({ status: 'queued', done: true })
    expect(server.count('result')).toBeGreaterThan(3)
  })

  it('is not waited for longer than the lease may last', async () => {
    const { server, client } = await connect()
    server.leaseSeconds = 2
    server.next.result.push(cutOff, silence)
    const handle = await client.run(order)
    const refusal = handle.waitFor('running').catch((error: unknown) => error)
    const { code, message } = (await refusal) as OsmosisError
    expect(code).toBe('protocol_error')
    // A busy machine takes some of the lease before the first request, so only what is left of it bounds the second one.
    const [, silent, within] =
      /did not answer for (\S+) s, .* got no answer within (\S+) s/.exec(message) ?? []
    expect(Number(silent)).toBeGreaterThan(0)
    expect(Number(within)).toBeLessThanOrEqual(2)
    expect(server.count('result')).toBe(2)
  })

  it.each([
    ['an error', json(500, { detail: 'oops' }), { status: 500 }],
    ['an expired result', json(404, { detail: 'unknown rollout_id' }), { status: 404 }],
    ['a lease that is refused', json(403, { detail: 'invalid polling lease' }), { status: 403 }],
    ['a wrong key', json(401, {}), { status: 401, code: 'unauthorized' }],
    ['a redirect', json(302, '', { location: '/elsewhere' }), { status: 302 }],
    ['what is not JSON', json(200, '<html>'), { status: 200 }],
    ['an unknown status', json(200, resultBody('r1', 'paused')), { status: 200 }],
    ['a stolen id', json(200, resultBody('r2', 'success')), { status: 200 }],
  ])('takes %s as it is', async (_name, answer, error) => {
    const { server, client } = await connect()
    server.next.result.push(answer)
    const handle = await client.run(order)
    await expect(handle.waitFor('completed')).rejects.toMatchObject({
      code: 'protocol_error',
      ...error,
    })
    expect(server.count('result')).toBe(1)
  })
})

describe.concurrent('a server that says nothing', () => {
  it('is polled again after wait + 10 s', { tags: 'slow' }, async ({ onTestFinished }) => {
    const { server, client } = await connect({}, onTestFinished)
    server.waitSeconds = 0.01
    server.next.result.push(silence)
    const handle = await client.run(order)
    await server.arrived('result', 2)
    server.set('r1', 'success')
    expect(await handle.waitFor('completed')).toMatchObject({ status: 'success' })
  })

  it('has 5 s for a cancellation', async ({ onTestFinished }) => {
    const { server, client } = await connect({}, onTestFinished)
    server.next.cancel.push(silence)
    const handle = await client.run(order)
    await expect(handle.cancelAtServer()).rejects.toMatchObject({
      code: 'protocol_error',
      message: 'POST /rollout/cancel got no answer within 5 s. Is the rollout server overloaded?',
    })
  })

  it('has 5 s beyond its time for draining', { tags: 'slow' }, async ({ onTestFinished }) => {
    const { server, client } = await connect({}, onTestFinished)
    server.next.drain.push(silence)
    await expect(client.drain({ timeoutSeconds: 0.5 })).rejects.toMatchObject({
      code: 'protocol_error',
      message: 'POST /drain got no answer within 5.5 s. Is the rollout server overloaded?',
    })
  })

  it('is not asked over a connection that has been idle for as long as servers keep one', async () => {
    // Nothing but the client ends connections, and no header sets their idle time.
    const server = createServer({ keepAliveTimeout: 0 }, (_request, response) => {
      json(503, {})(response)
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const connected = once(server, 'connection')
    await using client = createRolloutClient({ baseUrl: `http://127.0.0.1:${port}` })
    await expect(client.run(order)).rejects.toMatchObject({ status: 503 })
    const [connection] = (await connected) as [Socket]
    await once(connection, 'close')
    server.close()
    await once(server, 'close')
  })
})
