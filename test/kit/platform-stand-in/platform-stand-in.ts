import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

import { onTestFinished } from 'vitest'

import { assertFit, refuseUnfit } from './stand-in-contract.ts'
import { StandInDatasets } from './stand-in-datasets.ts'
import { refusal, type StandInAnswer, type StandInRequest, page } from './stand-in-request.ts'
import { StandInRuns } from './stand-in-runs.ts'

/** What a poll of a device login is answered with before the token. */
type DevicePoll = 'authorization_pending' | 'slow_down' | 'expired_token' | 'access_denied'

/** Logins of the stand-in: tokens that are good, and how a device login goes. */
class StandInLogin {
  /** Good tokens by their text, with their ids. */
  readonly tokens = new Map([['standing-token', 'token-1']])
  readonly user = { id: 'user-1', email: 'ada@example.com', name: 'Ada' }
  /** Answers to the next polls; after them the login is allowed. */
  polls: DevicePoll[] = []
  /** Seconds. */
  interval = 0.01
  expiresAt: string | undefined = '2999-01-01T00:00:00Z'
  #issued = 0

  /** Routes that need no token; undefined for others. */
  open({ path: [first, second] }: StandInRequest): StandInAnswer | undefined {
    if (first !== 'device') return undefined
    if (second === 'authorize') return this.#authorize()
    const poll = this.polls.shift()
    if (poll !== undefined) return { status: 400, body: { error: poll } }
    this.#issued += 1
    const token = `device-token-${this.#issued}`
    const id = `device-${this.#issued}`
    this.tokens.set(token, id)
    return { body: { token, user: this.user, expires_at: this.expiresAt, token_id: id } }
  }

  /** Undefined for a good token. */
  refuse({ headers }: StandInRequest): StandInAnswer | undefined {
    const given = headers['authorization']
    if (given === undefined) {
      return refusal(401, 'Log in first.', { code: 'AUTH_HEADER_MISSING' })
    }
    return this.#idOf(given) === undefined
      ? refusal(401, 'This token is not known.', { code: 'TOKEN_INVALID' })
      : undefined
  }

  verify({ headers }: StandInRequest): StandInAnswer {
    return {
      body: {
        user: this.user,
        expires_at: this.expiresAt,
        token_id: this.#idOf(headers['authorization']),
        workspace: { id: 'workspace-1', name: 'lab', role: 'owner' },
      },
    }
  }

  revoke(id: string): StandInAnswer {
    for (const [token, tokenId] of this.tokens) if (tokenId === id) this.tokens.delete(token)
    return { status: 204 }
  }

  #authorize(): StandInAnswer {
    return {
      body: {
        device_code: 'planted-device-code',
        user_code: 'WDJB-MJHT',
        verification_uri: 'https://platform.example/device',
        verification_uri_complete: 'https://platform.example/device?code=WDJB-MJHT',
        expires_in: 600,
        interval: this.interval,
      },
    }
  }

  #idOf(authorization: string | string[] | undefined): string | undefined {
    return this.tokens.get(String(authorization).replace(/^Bearer /, ''))
  }
}

/** The hosted platform, as far as a command line sees it, on a port of this machine. */
export class PlatformStandIn {
  readonly login = new StandInLogin()
  readonly datasets = new StandInDatasets(() => this.url)
  readonly evalRuns = new StandInRuns('eval', () => this.url)
  readonly trainingRuns = new StandInRuns('training', () => this.url)
  /** Names of secrets with their scopes and values. */
  readonly secrets: { name: string; scope: string; value: string }[] = []
  readonly workspaces: unknown[] = [
    { id: 'workspace-1', name: 'lab', connected_repo: { repo_full_name: 'Acme/Lab' } },
  ]
  /** All requests, in order. */
  readonly requests: StandInRequest[] = []
  /** Headers of every answer, such as `x-osmosis-version-status`. */
  headers: Record<string, string> = {}
  readonly #faults: { route: string; answer: StandInAnswer | 'hang' | 'drop' }[] = []
  readonly #server = createServer((message, response) => {
    this.#serve(message, response).catch((error: unknown) => {
      response.writeHead(500).end(String(error))
    })
  })

  /** Starts one that ends with the test. */
  static async start(): Promise<PlatformStandIn> {
    const standIn = new PlatformStandIn()
    standIn.#server.listen(0, '127.0.0.1')
    await once(standIn.#server, 'listening')
    onTestFinished(() => {
      standIn.#server.closeAllConnections()
      standIn.#server.close()
    })
    return standIn
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** `METHOD first/second` of every request, in order. */
  get calls(): string[] {
    return this.requests.map(({ method, path }) => `${method} ${path.join('/')}`)
  }

  /** Answers the next request to `METHOD path` with this, or not at all, or hangs up. */
  fail(route: string, answer: StandInAnswer | 'hang' | 'drop'): void {
    this.#faults.push({ route, answer })
  }

  async #serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await toRequest(message)
    this.requests.push(request)
    const called = `${request.method} ${request.path.join('/')}`
    const at = this.#faults.findIndex(({ route }) => route === called)
    const [fault] = at === -1 ? [] : this.#faults.splice(at, 1)
    if (fault?.answer === 'hang') return
    if (fault?.answer === 'drop') {
      response.destroy()
      return
    }
    const answer = fault?.answer ?? this.#checked(request) ?? refusal(404, `No route ${called}.`)
    const { status = 200, body, headers = {} } = answer
    response.writeHead(status, { ...this.headers, ...headers })
    if (body === undefined) response.end()
    else if (typeof body === 'string' || Buffer.isBuffer(body)) response.end(body)
    else response.end(JSON.stringify(body))
  }

  /** Checks requests and answers as strictly as the models of the Python SDK do. */
  #checked(request: StandInRequest): StandInAnswer | undefined {
    const answer = refuseUnfit(request) ?? this.#answer(request)
    if (answer !== undefined) assertFit(request, answer)
    return answer
  }

  #answer(request: StandInRequest): StandInAnswer | undefined {
    const { path, query } = request
    const [first, second, , file = ''] = path
    if (first === 'storage') return this.datasets.store(request)
    if (first === 'run-files') return this.#runsOf(`${second}-runs`)?.file(file)
    const open = this.login.open(request) ?? this.login.refuse(request)
    if (open) return open
    if (first === 'tokens') return this.login.revoke(String(second))
    const unscoped = refuseScope(request)
    if (unscoped) return unscoped
    if (first === 'verify') return this.login.verify(request)
    if (first === 'workspaces') return { body: { workspaces: this.workspaces } }
    if (first === 'datasets') return this.datasets.answer(request)
    if (first === 'environment-secrets') return this.#secret(request, query)
    return this.#runsOf(String(first))?.answer(request)
  }

  #runsOf(route: string): StandInRuns | undefined {
    return { 'eval-runs': this.evalRuns, 'training-runs': this.trainingRuns }[route]
  }

  #secret({ method, body }: StandInRequest, query: URLSearchParams): StandInAnswer {
    if (method === 'GET') {
      const asked = query.get('scope')
      const shown = this.secrets.filter(({ scope }) => asked === 'all' || asked === scope)
      return page('environment_secrets', shown.map(toSecret), query)
    }
    const { name, scope, value } = body as Record<'name' | 'scope' | 'value', string>
    const at = this.secrets.findIndex((one) => one.name === name && one.scope === scope)
    if (at !== -1) this.secrets.splice(at, 1)
    else if (method === 'DELETE') return refusal(404, `There is no secret ${name}.`)
    if (method === 'DELETE') return { body: {} }
    this.secrets.push({ name, scope, value })
    return { body: toSecret({ name, scope }) }
  }
}

function toSecret({ name, scope }: { name: string; scope: string }): object {
  const at = '2026-11-21T10:00:00Z'
  return { id: `secret-${scope}-${name}`, name, scope, created_at: at, updated_at: at }
}

/** The platform has one repository and one workspace. */
function refuseScope({ path: [first], headers }: StandInRequest): StandInAnswer | undefined {
  const git = headers['x-osmosis-git']
  const workspace = headers['x-osmosis-workspace']
  if (git === 'acme/lab' || workspace === 'lab') return undefined
  const needsNone = first === 'verify' || first === 'workspaces'
  if (git === undefined && workspace === undefined) {
    return needsNone
      ? undefined
      : refusal(400, 'Which workspace?', { code: 'GIT_SCOPE_HEADER_REQUIRED' })
  }
  const code = 'GIT_REPOSITORY_NOT_CONNECTED'
  return refusal(403, 'This repository is not connected to a workspace.', { code })
}

async function toRequest(message: IncomingMessage): Promise<StandInRequest> {
  const raw = await buffer(message)
  const url = new URL(message.url ?? '/', 'http://stand-in')
  const path = url.pathname
    .replace(/^\/api\/cli\//, '/')
    .split('/')
    .slice(1)
  return {
    method: message.method ?? '',
    path: path.map(decodeURIComponent),
    query: url.searchParams,
    headers: message.headers,
    raw,
    body: parseObject(raw),
  }
}

function parseObject(raw: Buffer): Record<string, unknown> {
  try {
    const json: unknown = JSON.parse(raw.toString())
    return typeof json === 'object' && json !== null ? (json as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
