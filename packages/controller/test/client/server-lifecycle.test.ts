import { describe, expect, it } from 'vitest'

import { connect, cutOff, json } from './leasing-server.ts'

describe('draining a server', () => {
  it('closes its admission and says what is left', async () => {
    const { server, client } = await connect()
    server.active = 2
    expect(await client.drain({ timeoutSeconds: 3 })).toStrictEqual({
      drained: false,
      activeRollouts: 2,
      rolloutIds: ['r1'],
      instanceId: 'server',
      processId: 'process-1',
    })
    expect(server.requests.map(({ raw }) => raw)).toStrictEqual(['{"timeout_sec":3}'])
  })

  it('is not tried again', async () => {
    const { server, client } = await connect()
    server.next.drain.push(cutOff)
    await expect(client.drain()).rejects.toMatchObject({ code: 'protocol_error' })
    expect(server.requests.map(({ raw }) => raw)).toStrictEqual(['{"timeout_sec":30}'])
  })

  it.each([-1, 301, Infinity, Number.NaN])('refuses a time of %d s', async (timeoutSeconds) => {
    const { server, client } = await connect()
    await expect(client.drain({ timeoutSeconds })).rejects.toMatchObject({
      code: 'invalid_request',
      message: `timeoutSeconds must be a number from 0 to 300, got ${timeoutSeconds}.`,
    })
    expect(server.requests).toStrictEqual([])
  })
})

describe('waiting until a server is idle', () => {
  it('looks again while rollouts are active', async () => {
    const { server, client } = await connect()
    server.active = 1
    const idle = client.waitIdle()
    await server.arrived('health', 1)
    server.active = 0
    expect(await idle).toMatchObject({ processId: 'process-1', acceptingRollouts: true })
    expect(server.count('health')).toBe(2)
  })

  it('asks again what passes: lost connections and overload', async () => {
    const { server, client } = await connect()
    server.next.health.push(cutOff, json(503, ''))
    expect(await client.waitIdle()).toMatchObject({ processId: 'process-1' })
    expect(server.count('health')).toBe(3)
  })

  it.each([
    ['an old one', json(200, { status: 'ok' }), 'has no process_id or no lifecycle'],
    ['one that refuses', json(403, { detail: 'no' }), 'answered with 403: no'],
    ['one that answers nonsense', json(200, 'fine'), 'is not JSON'],
  ])('refuses %s at once', async (_name, answer, message) => {
    const { server, client } = await connect()
    server.next.health.push(answer)
    await expect(client.waitIdle()).rejects.toThrow(message)
    expect(server.count('health')).toBe(1)
  })

  it('does not take a restarted server for an idle one', async () => {
    const { server, client } = await connect()
    server.active = 1
    const idle = client.waitIdle()
    await server.arrived('health', 1)
    server.active = 0
    server.processId = 'process-2'
    const restarted = {
      code: 'protocol_error',
      message:
        'The rollout server was restarted (process process-1, now process-2): what it ran before is lost. Send it again under new rolloutIds.',
    }
    await expect(idle).rejects.toMatchObject(restarted)
    await expect(client.waitIdle({ processId: 'process-1' })).rejects.toMatchObject(restarted)
  })

  it('gives up when its time is over, and says what was active', async () => {
    const { server, client } = await connect()
    server.active = 3
    await expect(client.waitIdle({ timeoutSeconds: 1 })).rejects.toMatchObject({
      code: 'timeout',
      message: 'The rollout server was not idle within 1 s. 3 rollouts were active.',
    })
  })

  it.each([-1, Number.NaN])('refuses a time of %d s', async (timeoutSeconds) => {
    const { server, client } = await connect()
    await expect(client.waitIdle({ timeoutSeconds })).rejects.toMatchObject({
      code: 'invalid_request',
      message: `timeoutSeconds must be a number of at least 0, got ${timeoutSeconds}.`,
    })
    expect(server.requests).toStrictEqual([])
  })

  it('ends with its signal', async () => {
    const { server, client } = await connect()
    server.active = 1
    const abort = new AbortController()
    const idle = client.waitIdle({ signal: abort.signal })
    await server.arrived('health', 1)
    abort.abort(new Error('enough'))
    await expect(idle).rejects.toThrow('enough')
  })
})
