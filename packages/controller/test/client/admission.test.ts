import { createRolloutClient } from '@osmosis/controller'
import { describe, expect, it } from 'vitest'

import { connect, cutOff, json, order, silence } from './leasing-server.ts'

const unsure =
  'The rollout may have been admitted; then it ends when its lease expires. Do not cancel it by its id, and send it again under a new rolloutId.'

describe('sending a rollout for a lease', () => {
  it('posts the whole order with the key of the server, and no callbacks', async () => {
    const { server, client } = await connect({ apiKey: 'server-key' })
    const handle = await client.run({
      initialMessages: [{ role: 'user', content: 'Is it?' }],
      label: 'yes',
      chatCompletionsUrl: 'http://policy/v1',
      llmApiKey: 'policy-key',
      agentTimeoutSeconds: 60,
    })
    expect(handle).toMatchObject({ status: 'queued', latestResult: null, done: false })
    expect(handle.rolloutId).toMatch(/^[0-9a-f]{32}$/)
    const [posted] = server.requests
    expect(posted?.headers).toMatchObject({
      authorization: 'Bearer server-key',
      'content-type': 'application/json',
    })
    expect(posted?.body).toStrictEqual({
      rollout_id: handle.rolloutId,
      initial_messages: [{ role: 'user', content: 'Is it?' }],
      label: 'yes',
      metadata: null,
      chat_completions_url: 'http://policy/v1',
      llm_api_key: 'policy-key',
      grade: true,
      agent_timeout_sec: 60,
      grader_timeout_sec: null,
      extra_fields: null,
    })
  })

  it('waits as long as a full server asks, and sends the same order again', async () => {
    const { server, client } = await connect()
    const full = json(429, { detail: 'rollout queue is full; retry later' }, { 'retry-after': '0' })
    server.next.rollout.push(full, full)
    await client.run(order)
    const bodies = server.requests.filter(({ path }) => path === '/rollout').map(({ raw }) => raw)
    expect(bodies).toHaveLength(3)
    expect(new Set(bodies).size).toBe(1)
  })

  it('gives up on a server that stays full, and knows that nothing was admitted', async () => {
    const { server, client } = await connect({ admissionTimeoutSeconds: 30 })
    server.next.rollout.push(json(429, {}, { 'retry-after': '30' }))
    const limits = { admissionTimeoutSeconds: 1 }
    await expect(client.run(order, limits)).rejects.toMatchObject({
      code: 'timeout',
      message:
        'The rollout "r1" was not admitted within 1 s: the server was full. It does not run; send it later.',
    })
    expect(server.requests.map(({ path }) => path)).toStrictEqual(['/rollout'])
  })

  it('never cancels by id what may have been admitted unheard', async () => {
    const { server, client } = await connect({ admissionTimeoutSeconds: 1 })
    server.next.rollout.push(silence)
    await expect(client.run(order)).rejects.toMatchObject({
      code: 'timeout',
      message: `The rollout "r1" was not admitted within 1 s, and the server had not answered. ${unsure}`,
    })
    await client.close()
    expect(server.requests.map(({ path }) => path)).toStrictEqual(['/rollout'])
  })

  it('does not send again when the connection breaks off', async () => {
    const { server, client } = await connect()
    server.next.rollout.push(cutOff)
    const failure: unknown = await client.run(order).catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'protocol_error', status: undefined })
    expect(String(failure)).toContain(unsure)
    expect(server.count('rollout')).toBe(1)
  })

  it('reports that nothing was admitted where no server listens', async () => {
    await using client = createRolloutClient({ baseUrl: 'http://127.0.0.1:1' })
    await expect(client.run(order)).rejects.toMatchObject({
      code: 'protocol_error',
      message:
        'POST http://127.0.0.1:1/rollout got no answer: connect ECONNREFUSED 127.0.0.1:1. Is the rollout server running?',
    })
  })

  it('reports that nothing was admitted where no connection can be made', async () => {
    // An address to which no connection leads, on any machine.
    await using client = createRolloutClient({ baseUrl: 'http://255.255.255.255:8000' })
    const failure: unknown = await client.run(order).catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'protocol_error' })
    expect(String(failure)).toMatch(/ got no answer: connect E/)
    expect(String(failure)).not.toContain(unsure)
  })

  it.each([
    [200, { status: 'ok' }, 'Only 202 admits a rollout, and only 429 is retried.'],
    [307, '', 'Only 202 admits a rollout'],
    [409, { detail: 'rollout_id is already registered' }, 'Give every attempt its own rolloutId'],
    [
      503,
      { detail: 'rollout admissions are drained' },
      'The server is draining and will not accept rollouts again',
    ],
    [
      422,
      { detail: [{ loc: ['body', 'completion_callback_url'], msg: 'Field required' }] },
      'it is older than leased results. Send it rollouts with createController.',
    ],
  ])('takes %i for a refusal and says what to do', async (status, body, advice) => {
    const { server, client } = await connect()
    server.next.rollout.push(json(status, body, { location: '/elsewhere', 'retry-after': '0' }))
    const failure: unknown = await client.run(order).catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'protocol_error', status })
    expect(String(failure)).toContain(advice)
    expect(server.requests.map(({ path }) => path)).toStrictEqual(['/rollout'])
  })

  it('says which key is wrong', async () => {
    const { server, client } = await connect({ apiKey: 'wrong' })
    server.next.rollout.push(json(401, { detail: 'unauthorized' }))
    await expect(client.run(order)).rejects.toMatchObject({
      code: 'unauthorized',
      status: 401,
      message:
        "POST /rollout was answered with 401: unauthorized. Pass the rollout server's key as apiKey.",
    })
  })

  it.each([
    ['of another rollout', { rollout_id: 'r2' }, 'is about "r2", not "r1"'],
    ['without a token', { polling_lease_token: '' }, 'polling_lease_token'],
    ['with a lease as short as the wait', { polling_lease_timeout_sec: 0.05 }, 'a lease of 0.05 s'],
  ])('refuses a lease %s', async (_name, wrong, fault) => {
    const { server, client } = await connect()
    server.next.rollout.push(json(202, { ...server.accepted('r1'), ...wrong }))
    const failure: unknown = await client.run(order).catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'protocol_error', status: 202 })
    expect(String(failure)).toContain(fault)
  })

  it('ends with its signal, with its reason', async () => {
    const { server, client } = await connect()
    server.next.rollout.push(silence)
    const abort = new AbortController()
    const running = client.run(order, { signal: abort.signal })
    await server.arrived('rollout', 1)
    abort.abort(new Error('enough'))
    await expect(running).rejects.toThrow('enough')
    await expect(client.run(order, { signal: abort.signal })).rejects.toThrow('enough')
    expect(server.count('rollout')).toBe(1)
  })

  it('refuses an order that cannot be sent, before it is sent', async () => {
    const { server, client } = await connect()
    const wrong = { ...order, rolloutId: '../r1', agentTimeoutSeconds: Infinity }
    await expect(client.run(wrong)).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringMatching(/rollout_id: .*agent_timeout_sec: /) as string,
    })
    expect(server.requests).toStrictEqual([])
  })

  it.each([-1, Number.NaN])('refuses to wait %d s for admission', async (seconds) => {
    const { server, client } = await connect()
    await expect(client.run(order, { admissionTimeoutSeconds: seconds })).rejects.toMatchObject({
      code: 'invalid_request',
      message: `admissionTimeoutSeconds must be a number of at least 0, got ${seconds}.`,
    })
    expect(server.requests).toStrictEqual([])
  })

  it.each(['localhost:9000', 'ftp://host', 'http://me:secret@host', 'http://host/?key=1'])(
    'refuses the base URL %s',
    (baseUrl) => {
      expect(() => createRolloutClient({ baseUrl })).toThrow('baseUrl must be an http or https URL')
    },
  )
})
