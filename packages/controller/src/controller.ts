import { randomBytes } from 'node:crypto'

import type { HttpBindings } from '@hono/node-server'
import { errorMessage, OsmosisError } from '@osmosis/core'
import { Hono } from 'hono'
import { Agent } from 'undici'

import { callbackRoutes } from './callback-routes.ts'
import type { ControllerOptions, RunOptions } from './controller-options.ts'
import { listen } from './loopback-server.ts'
import { policyRoute } from './policy-route.ts'
import { driveRollout } from './rollout-driver.ts'
import type { RolloutOrder } from './rollout-order.ts'
import type { RolloutOutcome } from './rollout-result.ts'
import { RolloutSessions } from './rollout-sessions.ts'

/** The training cluster's side of the rollout protocol, listening. */
export interface Controller extends AsyncDisposable {
  /** Base URL of the policy endpoint and the callback listener, without a slash at the end. */
  readonly url: string
  readonly callbackToken: string
  readonly policyToken: string
  /**
   * Sends one rollout and waits for its end. A rollout that fails or times out is a result, not an
   * error. While the server is full (429, 503) the order is repeated after its `Retry-After`.
   *
   * When `signal` aborts, the rollout is cancelled at the server and the signal's reason thrown,
   * unless the end had already come: then that is the result.
   *
   * @throws OsmosisError with code `invalid_request` for an order that cannot be sent,
   * `unauthorized` when the server refuses the key, `protocol_error` for any other answer (its
   * status is in `status`) or none at all; whatever `onTerminal` throws for a timeout or a
   * cancellation.
   */
  run(order: RolloutOrder, options?: RunOptions): Promise<RolloutOutcome>
  /** Cancels what is running and stops listening. Safe to call again. */
  close(): Promise<void>
}

/**
 * Opens a controller: one HTTP server that is policy endpoint and callback listener, and the driver
 * that sends rollouts to a rollout server. The caller closes it.
 *
 * | route | bearer |
 * |---|---|
 * | `POST /v1/rollouts/{id}/chat/completions` | `policyToken` |
 * | `POST /v1/rollouts/{id}/completion`, `.../grader` | `callbackToken` |
 * | `GET /health` | none |
 *
 * @throws OsmosisError with code `invalid_config` for an empty token, `port_in_use` when the
 * address is taken
 */
export async function createController(options: ControllerOptions): Promise<Controller> {
  const callbackToken = tokenOf('callbackToken', options.callbackToken)
  const policyToken = tokenOf('policyToken', options.policyToken)
  const sessions = new RolloutSessions({
    onTerminal: options.onTerminal ?? (() => {}),
    onConflict: options.onConflict ?? (() => {}),
  })
  const app = new Hono<{ Bindings: HttpBindings }>()
    .get('/health', (c) => c.json({ status: 'ok' }))
    .route('/', policyRoute(sessions, options.policy, policyToken))
    .route('/', callbackRoutes(sessions, callbackToken))
    .notFound((c) => c.json({ detail: 'Not Found' }, 404))
    .onError((error, c) => c.json({ detail: errorMessage(error) }, 500))
  const { host = '127.0.0.1', port = 0 } = options
  const listening = await listen(app.fetch, { host, port })
  const { url } = listening

  // A rollout takes as long as it takes; only unreachable servers are given up on.
  const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 10_000 } })
  const closed = new AbortController()
  const running = new Set<Promise<unknown>>()
  let closing: Promise<void> | undefined

  async function run(order: RolloutOrder, runOptions: RunOptions = {}): Promise<RolloutOutcome> {
    const server = runOptions.server ?? options.server
    if (server === undefined) {
      throw new OsmosisError(
        'invalid_config',
        'There is no rollout server to send to. Pass server to createController or to run.',
      )
    }
    const signals = [closed.signal, ...(runOptions.signal ? [runOptions.signal] : [])]
    const rollout = driveRollout(order, {
      sessions,
      server,
      address: { url, callbackToken, policyToken },
      dispatcher: agent,
      signal: AbortSignal.any(signals),
    })
    running.add(rollout)
    try {
      return await rollout
    } finally {
      running.delete(rollout)
    }
  }

  async function shutDown(): Promise<void> {
    closed.abort(
      new OsmosisError('cancelled', 'The controller was closed before the rollout ended.'),
    )
    // Their servers are told to stop, and commits under way are brought to an end.
    await Promise.allSettled(running)
    await listening.close()
    await agent.destroy()
  }

  const close = (): Promise<void> => (closing ??= shutDown())
  return { url, callbackToken, policyToken, run, close, [Symbol.asyncDispose]: close }
}

function tokenOf(name: string, given: string | undefined): string {
  if (given?.trim() === '') {
    throw new OsmosisError('invalid_config', `${name} must not be empty. Omit it for a random one.`)
  }
  return given ?? randomBytes(32).toString('base64url')
}
