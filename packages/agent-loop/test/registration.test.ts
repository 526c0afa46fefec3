import { get, type ServerResponse } from 'node:http'

import { checkRegistration, type Registration, type RegistrationOptions } from '@osmosis/agent-loop'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { HttpPeer, type PeerRequest } from '../../../test/kit/index.ts'
import { startApp, type RunningApp } from './running-app.ts'

const token = 'login-token-7f3a'
const apiKey = 'osm_rollout_planted_key'

/** What the platform does with a registration: a status, a body with 200, or anything. */
type Verdict = number | object | ((response: ServerResponse, request: PeerRequest) => void)

/** The platform's side: it takes registrations, and calls back the servers that register. */
class Platform extends HttpPeer {
  readonly requests: PeerRequest[] = []
  /** Answers to the next registrations; later ones check the health of the server. */
  readonly verdicts: Verdict[] = []

  protected override receive(request: PeerRequest, response: ServerResponse): void {
    this.requests.push(request)
    const verdict = this.verdicts.shift() ?? askForHealth
    if (typeof verdict === 'function') verdict(response, request)
    else if (typeof verdict === 'number') response.writeHead(verdict).end('{"detail":"no"}')
    else response.end(JSON.stringify(verdict))
  }
}

async function startPlatform(...verdicts: Verdict[]): Promise<Platform> {
  const platform = await new Platform().start()
  onTestFinished(async () => platform[Symbol.asyncDispose]())
  platform.verdicts.push(...verdicts)
  return platform
}

function askForHealth(response: ServerResponse, { body }: PeerRequest): void {
  const { host, port, api_key } = body as { host: string; port: number; api_key?: string }
  const headers = api_key === undefined ? {} : { authorization: `Bearer ${api_key}` }
  const options = { host, port, path: '/platform/health', headers, agent: false }
  get(options, (health) => {
    health.resume()
    const { statusCode } = health
    const verdict =
      statusCode === 200
        ? { status: 'healthy', health_check_result: { server_info: {} } }
        : { status: 'unhealthy', health_check_result: { error: `answered ${statusCode}` } }
    response.end(JSON.stringify({ id: 'srv-1', ...verdict }))
  })
}

async function register(
  running: RunningApp,
  platform: Pick<Platform, 'url'>,
  options: Partial<RegistrationOptions> = {},
): Promise<Registration> {
  const { hostname: host, port } = new URL(running.url)
  return running.app.register({
    host,
    port: Number(port),
    token,
    platformUrl: platform.url,
    ...options,
  })
}

async function failureOf(registering: Promise<Registration>): Promise<Error> {
  const outcome: unknown = await registering.catch((error: unknown) => error)
  expect(outcome).toBeInstanceOf(Error)
  return outcome as Error
}

/** The error of a registration with these verdicts. */
async function failing(...verdicts: Verdict[]): Promise<{ error: Error; platform: Platform }> {
  const platform = await startPlatform(...verdicts)
  await using running = await startApp({ apiKey })
  const error = await failureOf(register(running, platform))
  // The server serves in any case.
  expect(await running.health()).toMatchObject({ status: 'healthy' })
  return { error, platform }
}

describe('registering', () => {
  it('sends name, address and key to the platform, which then finds the server healthy', async () => {
    const seen: PeerRequest[] = []
    const platform = await startPlatform((response, request) => {
      seen.push(request)
      askForHealth(response, request)
    })
    await using running = await startApp({ apiKey })

    const registered = await register(running, { url: `${platform.url}/base/` })

    expect(registered).toStrictEqual({ id: 'srv-1', status: 'healthy', error: null })
    expect(seen).toMatchObject([
      {
        method: 'POST',
        path: '/base/api/cli/rollout-server/register',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          accept: 'application/json',
        },
      },
    ])
    expect(seen[0]?.body).toStrictEqual({
      host: '127.0.0.1',
      port: Number(new URL(running.url).port),
      agent_loop_name: 'test-loop',
      api_key: apiKey,
    })
  })

  it('of a server without a key succeeds, and reports that its health cannot be checked', async () => {
    const platform = await startPlatform()
    await using running = await startApp()
    expect(await register(running, platform)).toStrictEqual({
      id: 'srv-1',
      status: 'unhealthy',
      error: 'answered 404',
    })
    expect(platform.requests.map(({ body }) => Object.keys(body))).toStrictEqual([
      ['host', 'port', 'agent_loop_name'],
    ])
  })

  const failed = 'Health check failed'
  it.each<[object, Registration]>([
    [
      { id: 'a', status: 'healthy', health_check_result: null },
      { id: 'a', status: 'healthy', error: null },
    ],
    [
      { id: 'a', status: 'healthy' },
      { id: 'a', status: 'healthy', error: null },
    ],
    [
      { id: 'a', status: 'unhealthy', health_check_result: { error: 'no\nroute\u001B[2J' } },
      { id: 'a', status: 'unhealthy', error: 'no route [2J' },
    ],
    [
      { id: 'a', status: 'unhealthy', health_check_result: {} },
      { id: 'a', status: 'unhealthy', error: failed },
    ],
    [
      { id: 'a', status: 'pending', health_check_result: null },
      { id: 'a', status: 'pending', error: failed },
    ],
    [
      { id: 7, health_check_result: { error: '' } },
      { id: '7', status: 'unknown', error: failed },
    ],
    [
      { status: 5, health_check_result: 'yes' },
      { id: null, status: 'unknown', error: failed },
    ],
    [{}, { id: null, status: 'unknown', error: failed }],
  ])('reads %j', async (answer, registration) => {
    const platform = await startPlatform(answer)
    await using running = await startApp({ apiKey })
    expect(await register(running, platform)).toStrictEqual(registration)
  })

  it('retries temporary failures, with the same idempotency key', async () => {
    const reset: Verdict = (response) => void response.socket?.destroy()
    const busy: Verdict = (response) => void response.writeHead(429, { 'retry-after': '0' }).end()
    const platform = await startPlatform(503, reset, busy)
    await using running = await startApp({ apiKey })

    expect(await register(running, platform)).toMatchObject({ status: 'healthy' })

    const [first, ...others] = platform.requests
    expect(others).toHaveLength(3)
    for (const { body, headers } of others) {
      expect(body).toStrictEqual(first?.body)
      expect(headers['idempotency-key']).toBe(first?.headers['idempotency-key'])
    }
    const retried = running.log.filter(({ message }) => message.includes('retrying'))
    expect(retried.map(({ fields }) => fields['reason'])).toStrictEqual([
      `The platform answered 503: no (${platform.url}/api/cli/rollout-server/register)`,
      expect.stringContaining('No answer from the platform'),
      expect.stringContaining('answered 429'),
    ])
  })

  it('gives up an answer that takes 15 seconds, and retries', async () => {
    const platform = await startPlatform(() => void vi.advanceTimersByTime(15_000))
    await using running = await startApp({ apiKey })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())

    expect(await register(running, platform)).toMatchObject({ status: 'healthy' })

    expect(running.log).toContainEqual({
      level: 'info',
      message: 'not registered yet; retrying',
      fields: { reason: expect.stringMatching(/^The platform .* gave no answer in 15 s\.$/) },
    })
  })
})

describe('a registration that fails', () => {
  it.each([
    [401, 'unauthorized', 'answered 401: no. The login token is wrong or has expired: log in'],
    [403, 'unauthorized', 'answered 403: no. The owner of the login token may not'],
    [404, 'protocol_error', 'answered 404: no. Check platformUrl (OSMOSIS_PLATFORM_URL).'],
    [409, 'protocol_error', 'answered 409: no'],
    [422, 'protocol_error', 'answered 422: no'],
  ])('with %i is not retried, and the error says what to do', async (status, code, message) => {
    const { error, platform } = await failing(status)
    expect(error).toMatchObject({ code, status, message: expect.stringContaining(message) })
    expect(platform.requests).toHaveLength(1)
  })

  it('with a redirect does not send the token elsewhere', async () => {
    const elsewhere = await startPlatform()
    const { error } = await failing((response) => {
      response.writeHead(307, { location: elsewhere.url }).end()
    })
    expect(error).toMatchObject({
      code: 'protocol_error',
      status: 307,
      message: expect.stringContaining('Redirects are not followed'),
    })
    expect(elsewhere.requests).toStrictEqual([])
  })

  it.each([
    ['<html>log in</html>', '<html>log in</html>'],
    ['[]', '[]'],
    ['null', 'null'],
    ['', 'nothing'],
    ['x'.repeat(2 * 1024 * 1024), 'more than 1048576 bytes'],
  ])('with %j as the answer fails with an error that describes it', async (answer, shown) => {
    const { error, platform } = await failing((response) => void response.end(answer))
    expect(error).toMatchObject({
      code: 'protocol_error',
      message: `The platform ${platform.url}/api/cli/rollout-server/register should answer a registration with a JSON object, got: ${shown}`,
    })
  })

  it('reports an unreachable platform after a few attempts', async () => {
    await using running = await startApp({ apiKey })
    await expect(register(running, { url: 'http://127.0.0.1:1' })).rejects.toMatchObject({
      code: 'platform_unreachable',
      message: expect.stringMatching(
        /^No answer from the platform: .*1:1 \(http:\/\/127\.0\.0\.1:1\/.*\)$/,
      ),
    })
    expect(running.log.filter(({ message }) => message.includes('retrying'))).toHaveLength(3)
    expect(await running.health()).toMatchObject({ status: 'healthy' })
  })

  it('reports an incomplete answer after a few attempts', async () => {
    const half: Verdict = (response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('{"id":', () => response.socket?.destroy())
    }
    const { error, platform } = await failing(half, half, half, half)
    expect(error).toMatchObject({
      code: 'platform_unreachable',
      message: expect.stringMatching(
        /^The connection closed during the answer of the platform .*: /,
      ),
    })
    expect(platform.requests).toHaveLength(4)
  })
})

describe('token and key', () => {
  const pieces = [token, apiKey].map((secret) => secret.slice(0, 8))
  const expectClean = (value: unknown): void => {
    const text = JSON.stringify(value, (_, inner: unknown) =>
      inner instanceof Error ? { text: inner.stack, cause: inner.cause } : inner,
    )
    for (const piece of pieces) expect(text).not.toContain(piece)
  }
  const echo = (status: number, before = ''): Verdict => {
    return (response, { headers, body }) => {
      const detail = `${before}${String(body['api_key'])} ${headers.authorization}`
      response.writeHead(status).end(JSON.stringify({ detail }))
    }
  }

  it('are in no error and no log line, even when the platform repeats them', async () => {
    const platform = await startPlatform(echo(503), echo(422))
    await using running = await startApp({ apiKey })
    const error = await failureOf(register(running, platform))
    expect(error).toMatchObject({
      message: expect.stringMatching(/answered 422: \[redacted\] Bearer \[redacted\] \(/),
    })
    expectClean([error, running.log])
    expect(JSON.stringify(running.log)).toContain('answered 503: [redacted] Bearer [redacted]')
  })

  it.each([
    ['key', 'x'.repeat(485)],
    ['token', 'x'.repeat(461)],
  ])('leave no fragment at the end of a truncated answer: the %s', async (_, before) => {
    const { error } = await failing(echo(422, before))
    expectClean(error)
    expect(error.message).toContain('x[redacted]')
  })

  it('are in no registration and no error about an answer', async () => {
    const result = { error: `requested with ${apiKey} of ${token}` }
    const platform = await startPlatform({ id: token, status: apiKey, health_check_result: result })
    platform.verdicts.push((response) => void response.end(`${'x'.repeat(190)}${token}`))
    await using running = await startApp({ apiKey })
    expect(await register(running, platform)).toStrictEqual({
      id: '[redacted]',
      status: '[redacted]',
      error: 'requested with [redacted] of [redacted]',
    })
    const error = await failureOf(register(running, platform))
    expect(error).toMatchObject({ code: 'protocol_error' })
    expectClean([error, running.log])
  })
})

describe('the end of a registration', () => {
  const shutDown = { code: 'server_shutdown', message: 'the server shut down first' }

  it('comes with the drain, whatever the platform does', async () => {
    const requested = Promise.withResolvers<void>()
    const platform = await startPlatform(() => requested.resolve())
    await using running = await startApp({ apiKey })
    const failure = failureOf(register(running, platform))
    await requested.promise
    await running.app.drain()
    expect(await failure).toMatchObject(shutDown)
  })

  it('comes with the drain also between two attempts, and none starts afterwards', async () => {
    const later: Verdict = (response) => void response.writeHead(503, { 'retry-after': '30' }).end()
    const platform = await startPlatform(later)
    await using running = await startApp({ apiKey })
    const failure = failureOf(register(running, platform))
    await vi.waitFor(() => expect(running.log.at(-1)?.message).toMatch(/retrying/), 60_000)
    await running.app.drain()
    expect(await failure).toMatchObject(shutDown)
    expect(await failureOf(register(running, platform))).toMatchObject(shutDown)
    expect(platform.requests).toHaveLength(1)
  })

  it('comes with the signal of the caller, which gets the reason', async () => {
    const requested = Promise.withResolvers<void>()
    const platform = await startPlatform(() => requested.resolve())
    await using running = await startApp({ apiKey })
    const controller = new AbortController()
    const failure = failureOf(register(running, platform, { signal: controller.signal }))
    await requested.promise
    const reason = new Error('enough')
    controller.abort(reason)
    expect(await failure).toBe(reason)
    expect(await running.health()).toMatchObject({ status: 'healthy' })
  })
})

describe('a registration', () => {
  it.each<[Partial<Record<keyof RegistrationOptions, unknown>>, RegExp]>([
    [{ token: undefined }, /^A registration needs a login token/],
    [{ token: '' }, /^A registration needs a login token/],
    [{ token: 'planted\n' }, /^A registration needs a login token/],
    [{ host: undefined }, /^A registration needs the host .* Got undefined\.$/],
    [{ host: '' }, /^A registration needs the host .* Got ""\.$/],
    [{ host: 'https://me.example' }, /Got "https:\/\/me\.example"\.$/],
    [{ host: 'me.example:9000' }, /without scheme, port and path/],
    [{ host: '0.0.0.0' }, /^A server can listen on 0\.0\.0\.0, but not be reached at that address/],
    [{ host: '::' }, /^A server can listen on ::/],
    [{ port: undefined }, /^A registration needs the port .* got undefined\.$/],
    [{ port: 0 }, /from 1 to 65535, got 0\.$/],
    [{ port: 70_000 }, /from 1 to 65535, got 70000\.$/],
    [{ platformUrl: 'platform.example' }, /^platformUrl \(OSMOSIS_PLATFORM_URL\) must be/],
    [{ platformUrl: 'ftp://platform.example' }, /must be an http or https URL/],
    [{ platformUrl: 'http://planted:planted@127.0.0.1' }, /without credentials\.$/],
  ])('with %j is not sent', async (options, message) => {
    const platform = await startPlatform()
    await using running = await startApp({ apiKey })
    const given = options as Partial<RegistrationOptions>
    const error = await failureOf(register(running, platform, given))
    expect(error).toMatchObject({ code: 'invalid_config', message: expect.stringMatching(message) })
    expect(error.message).not.toContain('planted')
    expect(platform.requests).toStrictEqual([])
  })

  it.each(['agents.example.com', '10.0.0.7', '127.0.0.1', '::1', 'bücher.example'])(
    'can be for the host %s',
    (host) => {
      expect(() => checkRegistration({ host, token })).not.toThrow()
    },
  )
})
