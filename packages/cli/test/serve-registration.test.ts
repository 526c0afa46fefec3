import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { get, type ServerResponse } from 'node:http'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { inWorkspace, run as osmosis, start, type StartedCommand } from './in-process.ts'
import { endpoint, type Received } from './model-endpoint.ts'
import { temporaryFolder } from './osmosis.ts'

inWorkspace()

const adder = ['-m', 'rollouts/agent-loops/adder.ts:agentLoop']
const token = 'planted-login-token'
const apiKey = 'planted-server-key'
const serveAdder = ['serve', ...adder, '--port', '0', '--api-key', apiKey]
const here = ['--register', '--public-host', '127.0.0.1']

type Verdict = (response: ServerResponse, request: Received) => void

/** The platform's side: without a verdict it asks the server that registers for its health. */
async function startPlatform(
  verdict: Verdict = askForHealth,
): Promise<{ url: string; received: Received[] }> {
  return endpoint((request, response) => verdict(response, request))
}

function askForHealth(response: ServerResponse, { body }: Received): void {
  const { host, port, api_key } = body as { host: string; port: number; api_key: string }
  const headers = { authorization: `Bearer ${api_key}` }
  get({ host, port, path: '/platform/health', headers, agent: false }, (health) => {
    health.resume()
    const answer =
      health.statusCode === 200
        ? { id: 'srv-1', status: 'healthy', health_check_result: null }
        : { id: 'srv-1', status: 'unhealthy' }
    response.end(JSON.stringify(answer))
  })
}

/** A home folder, logged in or whatever `credentials` makes of it. */
function home(
  credentials: string | object = login(),
): Record<'HOME' | 'OSMOSIS_TOKEN' | 'OSMOSIS_PLATFORM_URL', string> {
  const folder = temporaryFolder()
  mkdirSync(path.join(folder, '.config/osmosis'), { recursive: true })
  const text = typeof credentials === 'string' ? credentials : JSON.stringify(credentials)
  writeFileSync(credentialsIn(folder), text)
  return { HOME: folder, OSMOSIS_TOKEN: '', OSMOSIS_PLATFORM_URL: '' }
}

function credentialsIn(folder: string): string {
  return path.join(folder, '.config/osmosis/credentials.json')
}

function login(changes: Record<string, unknown> = {}): object {
  const mine = {
    access_token: token,
    token_type: 'Bearer',
    expires_at: '2999-01-01T00:00:00.123456+00:00',
    user: {},
    organization: {},
    created_at: '2025-01-01T00:00:00+00:00',
    ...changes,
  }
  const other = { ...mine, access_token: 'token of another workspace' }
  return { version: 1, active_workspace: 'mine', workspaces: { other, mine } }
}

/** A home folder with a login for this platform. */
function loggedInTo(
  url: string,
): Record<'HOME' | 'OSMOSIS_TOKEN' | 'OSMOSIS_PLATFORM_URL', string> {
  const record = { access_token: token, expires_at: '2999-01-01T00:00:00Z', token_store: 'file' }
  const credentials = { version: 2, platforms: { [url]: record } }
  return { ...home(credentials), OSMOSIS_PLATFORM_URL: url }
}

/** Whatever a command prints, the secrets are not in it. */
async function end(command: StartedCommand): Promise<string> {
  const { code, stdout, stderr } = await command.end()
  expect(code).toBe(0)
  expect(stdout + stderr).not.toContain('planted')
  return stdout
}

describe('osmosis serve --register', () => {
  it('tells the platform where the agent loop is, with the login of the active workspace', async () => {
    const platform = await startPlatform()
    const command = start([...serveAdder, ...here], loggedInTo(platform.url))
    const [, port] = await command.printed(/Listening on http:\/\/127\.0\.0\.1:(\d+) /)
    await command.printed(/^Registered/m)

    expect(await end(command)).toContain(
      `Registered with the platform as srv-1, at 127.0.0.1:${port}\n`,
    )
    expect(platform.received).toMatchObject([{ headers: { authorization: `Bearer ${token}` } }])
    expect(platform.received[0]?.body).toStrictEqual({
      host: '127.0.0.1',
      port: Number(port),
      agent_loop_name: 'adder',
      api_key: apiKey,
    })
  })

  it('takes the token of the environment before any login, and another public port', async () => {
    const platform = await startPlatform((response) => {
      response.end('{"id":"srv-2","status":"unhealthy","health_check_result":{"error":"no route"}}')
    })
    const command = start(
      [...serveAdder, '--register', '--public-host', 'agents.example.com:443'],
      {
        ...home('no JSON'),
        OSMOSIS_PLATFORM_URL: platform.url,
        OSMOSIS_TOKEN: 'planted-env-token',
        OSMOSIS_TOKEN_PLATFORM_URL: platform.url,
      },
    )
    const [, url = ''] = await command.printed(/Listening on (\S+)/)
    await command.printed(/^Registered/m)

    expect((await fetch(`${url}/health`)).status).toBe(200)
    expect(await end(command)).toContain(
      "Registered with the platform as srv-2, at agents.example.com:443, but the platform's health check failed (unhealthy): no route\n",
    )
    expect(platform.received).toMatchObject([
      {
        headers: { authorization: 'Bearer planted-env-token' },
        body: { host: 'agents.example.com', port: 443 },
      },
    ])
  })

  it('serves on when the platform refuses, and leaves the login as it is', async () => {
    const refusing: Verdict = (response, { headers, body }) => {
      const detail = [headers.authorization, body]
      response.writeHead(401).end(JSON.stringify({ detail }))
    }
    const platform = await startPlatform(refusing)
    const environment = loggedInTo(platform.url)
    const before = readFileSync(credentialsIn(environment.HOME))
    const command = start([...serveAdder, ...here], environment)
    const [, url = ''] = await command.printed(/Listening on (\S+)/)
    await command.printed(/^Could not register/m)

    expect((await fetch(`${url}/health`)).status).toBe(200)
    expect(await end(command)).toMatch(
      /\nCould not register with the platform: The platform answered 401: .*\[redacted\].*\. The login token is wrong or has expired: log in again\. \(http.*\)\n$/,
    )
    expect(readFileSync(credentialsIn(environment.HOME))).toStrictEqual(before)
  })

  it('continues to serve without a platform', async () => {
    const command = start([...serveAdder, ...here], loggedInTo('http://127.0.0.1:1'))
    const [, url = ''] = await command.printed(/Listening on (\S+)/)
    await command.printed(/Could not register with the platform: No answer from the platform/)
    expect((await fetch(`${url}/health`)).status).toBe(200)
    await end(command)
  })

  it('ends without waiting for a platform that says nothing', async () => {
    const asked = Promise.withResolvers<void>()
    const platform = await startPlatform(() => asked.resolve())
    const command = start([...serveAdder, ...here], loggedInTo(platform.url))
    await asked.promise
    expect(await end(command)).toMatch(
      /\nCould not register with the platform: the server shut down first\n$/,
    )
  })

  it('takes the address it listens on when others can reach that', async () => {
    // Of a network for documentation: past the check, no machine can listen there.
    const { code, stderr } = await osmosis(
      [...serveAdder, '--register', '--host', '192.0.2.1'],
      home(),
    )
    const unusable = /^error: Port \d+ of 192\.0\.2\.1 cannot be opened: [^]*EADDRNOTAVAIL/m
    expect([code, stderr]).toEqual([2, expect.stringMatching(unusable)])
  })

  it('registers nothing without the flag', async () => {
    const platform = await startPlatform()
    const command = start(serveAdder, loggedInTo(platform.url))
    await command.printed(/Listening on/)
    expect(await end(command)).not.toContain('egister')
    expect(platform.received).toStrictEqual([])
  })
})

describe('osmosis serve --register refuses', () => {
  const refusal = async (
    args: string[],
    env: Record<string, string> = home(),
    exitCode = 2,
  ): Promise<string> => {
    const { code, stdout, stderr } = await osmosis(['serve', ...args], {
      OSMOSIS_ROLLOUT_SERVER_API_KEY: '',
      ...env,
    })
    expect([code, stdout]).toEqual([exitCode, ''])
    expect(stderr).not.toContain('planted')
    return stderr
  }
  const keyed = [...adder, '--port', '0', '--api-key', apiKey]

  it.each<[string, string[], RegExp]>([
    [
      'an AgentWorkflow',
      ['rollouts/echo/main.ts', ...here],
      /^error: --register is for agent loops/,
    ],
    [
      'a server without a key',
      [...adder, ...here],
      /^error: --register needs a key, .* pass --api-key, or set OSMOSIS_ROLLOUT_SERVER_API_KEY\.\n$/,
    ],
    [
      'a server that asks for none',
      [...keyed, ...here, '--no-auth'],
      /^error: --register and --no-auth exclude each other/,
    ],
    [
      'an address of its own',
      [...keyed, '--register'],
      /^error: Other machines cannot reach the server at 127\.0\.0\.1\. Pass --public-host/,
    ],
    [
      'an address that is all of them',
      [...keyed, '--register', '--host', '0.0.0.0'],
      /^error: Other machines cannot reach the server at 0\.0\.0\.0\./,
    ],
    [
      'an IPv6 address that is all of them',
      [...keyed, '--register', '--host', '::'],
      /^error: Other machines cannot reach the server at ::\./,
    ],
    [
      'a name of its own',
      [...keyed, '--register', '--host', 'localhost'],
      /^error: Other machines cannot reach the server at localhost\./,
    ],
    [
      'a URL for a host',
      [...keyed, '--register', '--public-host', 'https://agents.example.com'],
      /^error: .* without scheme, port and path\. Got "https:\/\/agents\.example\.com"\.\n$/,
    ],
    [
      'a port that is none',
      [...keyed, ...here, '--public-host', 'agents.example.com:0'],
      /^error: option '--public-host <host\[:port\]>' .* Its port must be a number from 1 to 65535\.\n/,
    ],
    [
      'a place without the flag',
      [...keyed, '--public-host', '127.0.0.1'],
      /^error: --public-host only applies to a registration: pass --register as well\.\n$/,
    ],
  ])('%s', async (_, args, message) => {
    expect(await refusal(args)).toMatch(message)
  })

  it('a platform that is not a URL', async () => {
    const env = { ...home(), OSMOSIS_PLATFORM_URL: 'http://planted:planted@platform.example' }
    expect(await refusal([...keyed, ...here], env)).toBe(
      'error: The platform (OSMOSIS_PLATFORM_URL) must be an http or https URL without credentials.\n',
    )
  })

  it('somebody who has never logged in', async () => {
    const HOME = temporaryFolder()
    const env = { HOME, OSMOSIS_TOKEN: '', OSMOSIS_PLATFORM_URL: '' }
    expect(await refusal([...keyed, ...here], env, 1)).toBe(
      `error: Not logged in: ${credentialsIn(HOME)} has no login for https://platform.osmosis.ai. Log in with \`osmosis platform login\`, or set OSMOSIS_TOKEN to a login token of the platform.\n`,
    )
  })

  it.each<[string, string | object, string]>([
    [
      'has expired',
      login({ expires_at: '2020-01-01T01:00:00+02:00' }),
      'Not logged in: the login for https://platform.osmosis.ai has expired on 2020-01-01T01:00:00+02:00. Log in',
    ],
    [
      'has a time without a zone',
      login({ expires_at: '2999-01-01T00:00:00' }),
      'the login for mine has no expires_at with a date, a time and a zone. Log in',
    ],
    ['has no end', login({ expires_at: null }), 'the login for mine has no expires_at with'],
    ['has no token', login({ access_token: '' }), 'the login for mine has no access_token. Log in'],
    [
      'has no token that can be sent',
      login({ access_token: 'planted\ntoken' }),
      'A registration needs a login token of the platform: text of visible ASCII characters',
    ],
    [
      'is of a workspace that is not there',
      { version: 1, active_workspace: 'toString', workspaces: {} },
      'has no login for https://platform.osmosis.ai. Log in',
    ],
    [
      'is of no workspace',
      { version: 1, active_workspace: null, workspaces: {} },
      'has no login for https://platform.osmosis.ai. Log in',
    ],
    [
      'has no workspaces',
      { version: 1, active_workspace: 'mine' },
      'it should have workspaces, and the name of the active one. Log in',
    ],
    [
      'is of another version',
      { ...login(), version: 3 },
      'its version is 3, and this command reads 1 and 2. Upgrade osmosis',
    ],
    ['is not JSON', `{"access_token": ${token}`, 'cannot be used: it is not a JSON object. Log in'],
    ['is not an object', `["${token}"]`, 'cannot be used: it is not a JSON object. Log in'],
  ])('a login that %s', async (what, credentials, message) => {
    const exitCode = what === 'has no token that can be sent' ? 2 : 1
    const environment = home(credentials)
    const before = readFileSync(credentialsIn(environment.HOME))
    expect(await refusal([...keyed, ...here], environment, exitCode)).toContain(message)
    expect(readFileSync(credentialsIn(environment.HOME))).toStrictEqual(before)
  })
})
