import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

import { RolloutContext, type EgressOptions } from '@osmosis/core'
import { createTransport, EgressPolicy } from '@osmosis/core/http'
import { describe, expect, it, onTestFinished } from 'vitest'

import {
  addressForms,
  answerStream,
  resolveNames,
  sendStream,
  startPolicyEndpoint,
} from '../../../../test/kit/index.ts'

/** A server that counts who came; on a port of its choice, or on the one that is named. */
async function listenOn(host: string, wanted = 0): Promise<{ port: number; visitors: number }> {
  const seen = { port: 0, visitors: 0 }
  const server: Server = createServer((request, response) => {
    // A redirect, so that following one would be seen as well.
    if (request.url === '/moved') response.writeHead(307, { location: '/elsewhere' })
    response.end('here')
  }).listen(wanted, host)
  server.on('connection', () => (seen.visitors += 1))
  await once(server, 'listening')
  seen.port = (server.address() as AddressInfo).port
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return seen
}

/** Sends a request and resolves with its answer's text, or with the code of the error: for now or for good. */
async function asking(options: EgressOptions = {}): Promise<(url: string) => Promise<string>> {
  const transport = createTransport({
    name: 'receiver',
    codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
    egress: EgressPolicy.of(options),
  })
  onTestFinished(() => transport.close())
  const { signal } = new AbortController()
  const request = { headers: {}, body: '{}', signal, closeConnection: true }
  return async (url) => {
    try {
      return await text((await transport.post(url, request)).body)
    } catch (error) {
      const { code } = error as { code: string }
      return transport.isTransient(error) ? `${code}, for now` : code
    }
  }
}

describe('connections to literal addresses', () => {
  it('are not made where the policy refuses them, in whatever spelling', async () => {
    const server = await listenOn('::')
    const ask = await asking({ privateAddresses: 'refuse' })
    const forms = addressForms.filter(({ kind }) => kind !== 'public')
    for (const { host } of forms) {
      expect([host, await ask(`http://${host}:${server.port}/`)]).toStrictEqual([
        host,
        'egress_refused',
      ])
    }
    expect(forms.length).toBeGreaterThan(70)
    expect(server.visitors).toBe(0)
  })

  it('are made to loopback without options, and never to addresses that only lead there', async () => {
    const server = await listenOn('::')
    const ask = await asking()
    const loopback = ['127.0.0.1', '127.1', '0x7f.1', '2130706433', '[::1]', '[::ffff:127.0.0.1]']
    for (const host of loopback) {
      expect([host, await ask(`http://${host}:${server.port}/`)]).toStrictEqual([host, 'here'])
    }
    for (const host of ['0', '0.0.0.0', '[::]', '[::ffff:0:0]']) {
      expect([host, await ask(`http://${host}:${server.port}/`)]).toStrictEqual([
        host,
        'egress_refused',
      ])
    }
    expect(server.visitors).toBe(loopback.length)
  })
})

describe('connections to names', () => {
  it('are not made when the name leads to a refused address', async () => {
    const server = await listenOn('::')
    const names: Record<string, [string[]]> = {
      'metadata.google.internal': [['169.254.169.254']],
      'v6.test': [['fd00:ec2::254']],
      'mapped.test': [['::ffff:169.254.169.254']],
      'zone.test': [['fe80::1%lo']],
      'here.test': [['0.0.0.0']],
      'also-here.test': [['::']],
      'several.test': [['0.0.0.0', '::', '169.254.1.1']],
      // What a lookup should never give.
      'odd.test': [['127.1']],
    }
    resolveNames(names)
    const ask = await asking({ allowedHosts: ['*', ...Object.keys(names)] })
    for (const name of Object.keys(names)) {
      expect([name, await ask(`http://${name}:${server.port}/`)]).toStrictEqual([
        name,
        'egress_refused',
      ])
    }
    expect(server.visitors).toBe(0)
  })

  it('are made to those of several addresses that are allowed', async () => {
    const allowed = await listenOn('127.0.0.1')
    const other = await listenOn('127.0.0.2', allowed.port)
    resolveNames({ 'several.test': [['127.0.0.2', '127.0.0.1', '0.0.0.0']] })
    const ask = await asking({ allowedHosts: ['127.0.0.1'] })
    expect(await ask(`http://several.test:${allowed.port}/`)).toBe('here')
    expect([allowed.visitors, other.visitors]).toStrictEqual([1, 0])
  })

  it.each([
    ['allowed', {}, 'here', 1],
    ['refused', { allowedHosts: ['127.0.0.1'] }, 'egress_refused', 0],
  ] as const)(
    'follow the name to its second address where that is %s',
    async (_, options, second, visitors) => {
      const server = await listenOn('127.0.0.1')
      const rebound = await listenOn('127.0.0.2', server.port)
      const asked = resolveNames({ 'rebound.test': [['127.0.0.1'], ['127.0.0.2']] })
      const ask = await asking(options)
      expect(await ask(`http://rebound.test:${server.port}/`)).toBe('here')
      expect(await ask(`http://rebound.test:${server.port}/`)).toBe(second)
      expect([server.visitors, rebound.visitors]).toStrictEqual([1, visitors])
      // Once for each connection: what was checked is what was connected to.
      expect(asked).toStrictEqual(['rebound.test', 'rebound.test'])
    },
  )

  it('are not made to a name that is not listed, without looking it up', async () => {
    const asked = resolveNames({ 'evil.test': [['127.0.0.1']] })
    const ask = await asking({ allowedHosts: ['trainer.test'] })
    expect(await ask('http://evil.test:1/')).toBe('egress_refused')
    expect(asked).toStrictEqual([])
  })

  it('fail as before when there is no such name', async () => {
    resolveNames({ 'nowhere.test': [] })
    const ask = await asking()
    expect(await ask('http://nowhere.test:1/')).toBe('policy_unreachable, for now')
  })
})

it('a redirect is an error and is not followed', async () => {
  const server = await listenOn('127.0.0.1')
  const ask = await asking()
  expect(await ask(`http://127.0.0.1:${server.port}/moved`)).toBe('policy_http_error')
  expect(server.visitors).toBe(1)
})

describe('the policy client of a rollout', () => {
  const messages = [{ role: 'user', content: 'hi' }]

  function rollout(chatCompletionsUrl: string, egress?: EgressOptions): RolloutContext {
    return new RolloutContext({ rolloutId: 'r', chatCompletionsUrl, egress })
  }

  it('refuses what its egress refuses, once, and never on a connection of another policy', async () => {
    const policy = await startPolicyEndpoint((response) => sendStream(response, answerStream('hi')))
    const open = rollout(policy.url).policy('main')
    await open.complete({ messages })
    const closed = rollout(policy.url, { privateAddresses: 'refuse' }).policy('main')
    await expect(closed.complete({ messages })).rejects.toMatchObject({
      code: 'egress_refused',
      message: `The policy endpoint was not called: it leads to a private address, and those are refused (${policy.url}/chat/completions).`,
    })
    await open.complete({ messages })
    expect(policy.requests).toHaveLength(2)
  })

  it('answers an SDK with 403, which none asks again for', async () => {
    const { baseUrl, fetch } = rollout('http://169.254.169.254/v1').policy('main')
    const body = JSON.stringify({ messages })
    const answer = await fetch(`${baseUrl}/chat/completions`, { method: 'POST', body })
    expect(answer.status).toBe(403)
    expect(answer.headers.get('x-should-retry')).toBe('false')
    expect(await answer.json()).toMatchObject({ error: { code: 'egress_refused' } })
  })
})
