import type { ServerResponse } from 'node:http'

import {
  createRolloutClient,
  type RolloutClient,
  type RolloutClientOptions,
} from '@osmosis/controller'
import { onTestFinished } from 'vitest'

import { HttpPeer, type PeerRequest } from '../../../../test/kit/index.ts'

type Route = 'rollout' | 'result' | 'cancel' | 'drain' | 'health'

/** How one request is answered: by anything a response can do. */
export type Answer = (response: ServerResponse) => void

interface Leased {
  result: Record<string, unknown>
  readonly waiting: Set<() => void>
}

/**
 * A rollout server that delivers by lease, and runs nothing: the status of a rollout is up to the
 * test.
 */
export class LeasingServer extends HttpPeer {
  readonly requests: PeerRequest[] = []
  /** Answers of the next requests by route; the server's own when used up. */
  readonly next: Record<Route, Answer[]> = {
    rollout: [],
    result: [],
    cancel: [],
    drain: [],
    health: [],
  }
  waitSeconds = 0.05
  leaseSeconds = 120
  processId = 'process-1'
  active = 0
  readonly #rollouts = new Map<string, Leased>()

  /** Requests of a route so far. */
  count(route: Route): number {
    return this.requests.filter(({ path }) => routeOf(path) === route).length
  }

  /** Resolves when this many requests of a route have arrived. */
  async arrived(route: Route, count: number): Promise<void> {
    await this.until(() => this.count(route) >= count)
  }

  /** Sets the status of a rollout, and answers requests that wait for its result. */
  set(id: string, status: string, more: Record<string, unknown> = {}): void {
    const rollout = this.#rollouts.get(id)
    if (rollout === undefined) throw new Error(`${id} was not admitted`)
    rollout.result = resultBody(id, status, more)
    for (const answer of rollout.waiting) answer()
    rollout.waiting.clear()
  }

  protected override receive(request: PeerRequest, response: ServerResponse): void {
    this.requests.push(request)
    const route = routeOf(request.path)
    const scripted = this.next[route].shift()
    if (scripted) scripted(response)
    else this.#answer(route, request, response)
    this.wake()
  }

  #answer(route: Route, { path, headers, body }: PeerRequest, response: ServerResponse): void {
    if (route === 'rollout') this.#admit(String(body['rollout_id']), response)
    if (route === 'result') {
      const id = decodeURIComponent(path.split('/').at(-2) ?? '')
      if (headers['x-osmosis-rollout-lease'] === `lease of ${id}`) this.#wait(id, response)
      else json(403, { detail: 'invalid polling lease' })(response)
    }
    if (route === 'cancel') {
      const [id = ''] = body['ids'] as string[]
      json(200, { dispositions: { [id]: 'cancelled_running' } })(response)
      this.set(id, 'cancelled', { err_message: 'cancelled' })
    }
    const { processId: process_id, active: active_rollouts } = this
    if (route === 'drain') {
      const said = { instance_id: 'server', process_id, active_rollouts, rollout_ids: ['r1'] }
      json(200, { accepting_rollouts: false, drained: active_rollouts === 0, ...said })(response)
    }
    if (route === 'health') {
      const lifecycle = { accepting_rollouts: true, active_rollouts }
      json(200, { status: 'ok', process_id, lifecycle })(response)
    }
  }

  #admit(id: string, response: ServerResponse): void {
    this.#rollouts.set(id, { result: resultBody(id, 'queued'), waiting: new Set() })
    json(202, this.accepted(id))(response)
  }

  /** The body of a 202. */
  accepted(id: string): Record<string, unknown> {
    return {
      rollout_id: id,
      status: 'queued',
      polling_lease_token: `lease of ${id}`,
      result_wait_timeout_sec: this.waitSeconds,
      polling_lease_timeout_sec: this.leaseSeconds,
    }
  }

  #wait(id: string, response: ServerResponse): void {
    const rollout = this.#rollouts.get(id)
    if (rollout === undefined) return json(404, { detail: 'unknown rollout_id' })(response)
    const answer = (): void => {
      clearTimeout(timer)
      rollout.waiting.delete(answer)
      json(200, rollout.result)(response)
    }
    const timer = setTimeout(answer, this.waitSeconds * 1000)
    response.once('close', () => clearTimeout(timer))
    if (['success', 'failure', 'cancelled'].includes(String(rollout.result['status']))) answer()
    else rollout.waiting.add(answer)
  }
}

export function resultBody(
  id: string,
  status: string,
  more: Record<string, unknown> = {},
): Record<string, unknown> {
  return { rollout_id: id, status, sample: null, err_message: null, err_category: null, ...more }
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  }
}

/** Breaks the connection off instead of an answer. */
export const cutOff: Answer = (response) => response.destroy()

/** Gives no answer and keeps the connection. */
export const silence: Answer = () => {}

/**
 * A server and a client of it, both closed with the test.
 *
 * @param onFinished - of the test itself, which tests that run beside others have to give
 */
export async function connect(
  options: Omit<RolloutClientOptions, 'baseUrl'> = {},
  onFinished: (close: () => Promise<void>) => void = onTestFinished,
): Promise<{ server: LeasingServer; client: RolloutClient }> {
  const server = await new LeasingServer().start()
  const client = createRolloutClient({ baseUrl: server.url, ...options })
  onFinished(async () => {
    await client.close()
    await server[Symbol.asyncDispose]()
  })
  return { server, client }
}

/** An order that points nowhere. */
export const order = {
  rolloutId: 'r1',
  initialMessages: [],
  chatCompletionsUrl: 'http://policy/v1',
}

function routeOf(path: string): Route {
  if (path === '/rollout') return 'rollout'
  return path.split('/').at(-1) as Route
}
