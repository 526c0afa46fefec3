import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

import type { EgressOptions } from '@osmosis/core'
import { createTransport, EgressPolicy } from '@osmosis/core/http'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'

import { resolveNames } from '../../../../test/kit/index.ts'

beforeEach(() => {
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY']) {
    vi.stubEnv(name, undefined)
    vi.stubEnv(name.toLowerCase(), undefined)
  }
  vi.stubEnv('NODE_USE_ENV_PROXY', '1')
})
afterEach(() => {
  vi.unstubAllEnvs()
})

/** A proxy that answers itself, and what it was asked for. */
async function startProxy(): Promise<{ url: string; port: number; asked: string[] }> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url ?? '')
    response.end('from the proxy')
  }).listen(0, '127.0.0.1')
  server.on('connect', (request, socket) => {
    asked.push(`CONNECT ${request.url}`)
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
  })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${port}`, port, asked }
}

/** The text of the answer, or the message of the error. */
async function ask(url: string, egress?: EgressOptions): Promise<string> {
  const transport = createTransport({
    name: 'receiver',
    codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
    egress: egress && EgressPolicy.of(egress),
  })
  const { signal } = new AbortController()
  try {
    return await text((await transport.post(url, { headers: {}, body: '{}', signal })).body)
  } catch (error) {
    const { code, message } = error as { code: string; message: string }
    return `${code}: ${message}`
  } finally {
    await transport.close()
  }
}

describe('a request to a host for which the environment names a proxy', () => {
  it.each([
    ['HTTP_PROXY', 'http://models.test/v1', 'http://models.test/v1'],
    ['http_proxy', 'http://models.test:8000/v1', 'http://models.test:8000/v1'],
    ['HTTPS_PROXY', 'https://models.test/v1', 'CONNECT models.test:443'],
    ['https_proxy', 'https://models.test:8443/v1', 'CONNECT models.test:8443'],
    ['HTTP_PROXY', 'https://models.test/v1', 'CONNECT models.test:443'],
  ])('goes through that of %s: %s', async (variable, url, asked) => {
    const proxy = await startProxy()
    vi.stubEnv(variable, proxy.url)
    const answer = await ask(url)
    expect(proxy.asked).toEqual([asked])
    const refused = `No answer from the receiver through the proxy ${proxy.url}/ (${variable}): Proxy response (403) !== 200 when HTTP Tunneling (${url})`
    expect(answer).toBe(
      url.startsWith('http:') ? 'from the proxy' : `policy_unreachable: ${refused}`,
    )
  })

  it('goes through that of small letters, which may be empty for none', async () => {
    const [wrong, proxy] = [await startProxy(), await startProxy()]
    vi.stubEnv('HTTP_PROXY', wrong.url)
    vi.stubEnv('http_proxy', proxy.url)
    await ask('http://models.test/v1')
    vi.stubEnv('http_proxy', '')
    expect(await ask('http://models.invalid/v1')).toContain('ENOTFOUND models.invalid (')
    expect([wrong.asked, proxy.asked]).toEqual([[], ['http://models.test/v1']])
  })

  it('sends the name and password of the proxy, and no message has them', async () => {
    vi.stubEnv('HTTP_PROXY', 'http://name:secret-word@127.0.0.1:1')
    const answer = await ask('http://models.test/v1')
    expect(answer).toContain(
      'through the proxy http://127.0.0.1:1/ (HTTP_PROXY): connect ECONNREFUSED',
    )
    expect(answer).not.toContain('secret-word')
  })

  it.each(['proxy:3128', 'my proxy', 'ftp://proxy'])(
    'fails for good where the variable has no URL: %j',
    async (value) => {
      vi.stubEnv('HTTP_PROXY', value)
      expect(await ask('http://models.test/v1')).toBe(
        'invalid_config: HTTP_PROXY must be the URL of a proxy, such as http://proxy:3128, and is another text.',
      )
    },
  )
})

describe('NO_PROXY', () => {
  it.each([
    ['*', 'models.invalid'],
    ['other.test, models.invalid', 'models.invalid'],
    ['other.test models.invalid', 'models.invalid:8000'],
    ['MODELS.invalid', 'models.invalid'],
    ['models.invalid.', 'models.invalid'],
    ['models.invalid:8000', 'models.invalid:8000'],
    ['*:8000', 'models.invalid:8000'],
    ['models.invalid:80', 'models.invalid'],
    ['.invalid', 'models.invalid'],
    ['*.invalid', 'models.invalid'],
    ['invalid', 'models.invalid'],
    // Connecting to these fails at once: broadcast and multicast.
    ['255.255.255.255', '255.255.255.255'],
    ['255.255.255.250-255.255.255.255', '255.255.255.255'],
    ['ff0e::1', '[ff0e::1]'],
    ['[ff0e::1]:1', '[ff0e::1]:1'],
    // This machine never needs an entry.
    ['', '127.0.0.1:1'],
    ['', '127.4.5.6:1'],
    ['', 'localhost:1'],
    ['', '[::1]:1'],
  ])('%j excepts %s', async (list, host) => {
    const proxy = await startProxy()
    vi.stubEnv('HTTP_PROXY', proxy.url)
    for (const name of ['NO_PROXY', 'no_proxy']) {
      vi.stubEnv(name, list)
      expect(await ask(`http://${host}/v1`)).toMatch(
        /^policy_unreachable: No answer from the receiver: /,
      )
      vi.stubEnv(name, undefined)
    }
    expect(proxy.asked).toEqual([])
  })

  it.each([
    ['models.test:8000', 'models.test'],
    ['*:8000', 'models.test'],
    ['*.models.test', 'models.test'],
    ['odels.test', 'models.test'],
    ['192.0.2.1-192.0.2.9', '192.0.2.10'],
    ['[2001:db8::1]:1', '[2001:db8::1]:2'],
    [' , ', 'models.test'],
  ])('%j does not except %s', async (list, host) => {
    const proxy = await startProxy()
    vi.stubEnv('HTTP_PROXY', proxy.url)
    vi.stubEnv('NO_PROXY', list)
    expect(await ask(`http://${host}/v1`)).toBe('from the proxy')
    expect(proxy.asked).toEqual([`http://${host}/v1`])
  })
})

describe('without the switch of Node.js', () => {
  it.each([
    ['HTTP_PROXY', 'http://models.invalid/v1'],
    ['https_proxy', 'https://models.invalid/v1'],
    ['HTTP_PROXY', 'http://other.invalid:8000/v1'],
  ])('%s is ignored, and the error for %s names it', async (variable, url) => {
    const proxy = await startProxy()
    vi.stubEnv('NODE_USE_ENV_PROXY', undefined)
    vi.stubEnv(variable, proxy.url)
    expect(await ask(url)).toContain(
      `; ${variable} is ignored without NODE_USE_ENV_PROXY=1 (${url})`,
    )
    vi.stubEnv('NO_PROXY', 'localhost,.invalid')
    expect(await ask(url)).not.toContain('is ignored')
    expect(proxy.asked).toEqual([])
  })

  it.each([
    ['NODE_USE_ENV_PROXY', '0'],
    ['NODE_OPTIONS', '--no-warnings'],
  ])('%s=%s does not switch it on', async (name, value) => {
    const proxy = await startProxy()
    vi.stubEnv('NODE_USE_ENV_PROXY', undefined)
    vi.stubEnv(name, value)
    vi.stubEnv('HTTP_PROXY', proxy.url)
    expect(await ask('http://models.invalid/v1')).toContain('HTTP_PROXY is ignored')
  })
})

describe('an egress policy', () => {
  it.each([
    ['a metadata address', {}, 'http://169.254.169.254/v1'],
    ['a private address', { privateAddresses: 'refuse' }, 'http://10.0.0.1/v1'],
    ['a name with a private address', { privateAddresses: 'refuse' }, 'http://private.test/v1'],
    [
      'a name that only the proxy knows',
      { privateAddresses: 'refuse' },
      'http://unknown.invalid/v1',
    ],
    ['a name that is not listed', { allowedHosts: ['other.test'] }, 'http://public.test/v1'],
    ['a name in no subnet', { allowedHosts: ['10.0.0.0/8'] }, 'http://unknown.invalid/v1'],
  ] as const)('refuses %s behind a proxy too', async (_, egress, url) => {
    const proxy = await startProxy()
    vi.stubEnv('HTTP_PROXY', proxy.url)
    resolveNames({ 'private.test': [['10.0.0.1']], 'public.test': [['8.8.8.8']] })
    expect(await ask(url, egress)).toMatch(/^egress_refused: /)
    expect(proxy.asked).toEqual([])
  })

  it.each([
    ['a public name', { privateAddresses: 'refuse' }, 'http://public.test/v1'],
    ['a name that only the proxy knows', {}, 'http://unknown.invalid/v1'],
    [
      'a listed name',
      { allowedHosts: ['unknown.invalid'], privateAddresses: 'refuse' },
      'http://unknown.invalid/v1',
    ],
    ['a name in a subnet', { allowedHosts: ['8.8.8.0/24'] }, 'http://public.test/v1'],
  ] as const)(
    'allows %s behind a proxy, whose own address is not checked',
    async (_, egress, url) => {
      const proxy = await startProxy()
      vi.stubEnv('HTTP_PROXY', proxy.url)
      resolveNames({ 'public.test': [['8.8.8.8']] })
      expect(await ask(url, egress)).toBe('from the proxy')
      expect(proxy.asked).toEqual([url])
    },
  )
})
