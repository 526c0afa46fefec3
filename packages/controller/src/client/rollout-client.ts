import { OsmosisError } from '@osmosis/core'
import { assertApiKey } from '@osmosis/core/http'

import { ServerClient, type ServerAddress } from '../http/server-client.ts'
import { toLeasedRequest, type LeasedOrder } from '../workflow/rollout-order.ts'
import { admit } from './lease.ts'
import { FollowedRollout, type RolloutHandle } from './rollout-handle.ts'
import { drain, waitIdle, type DrainReport, type IdleReport } from './server-lifecycle.ts'

/** Options of {@link createRolloutClient}. */
export interface RolloutClientOptions {
  /** URL of the rollout server; its routes are appended. */
  readonly baseUrl: string
  /** Bearer key of the server, not of the policy. Default: none is sent. */
  readonly apiKey?: string
  /** How long `run` may wait for room at a full server. Seconds. Default: no limit. */
  readonly admissionTimeoutSeconds?: number
}

/** Options of `RolloutClient.run`. */
export interface LeasedRunOptions {
  /** Ends waiting for admission. A rollout whose admission is unknown ends when its lease expires. */
  readonly signal?: AbortSignal
  /** Default: that of the client. */
  readonly admissionTimeoutSeconds?: number
}

/** Options of `RolloutClient.waitIdle`. */
export interface WaitIdleOptions {
  /** Default: 120. */
  readonly timeoutSeconds?: number
  /** The process to wait for, as `drain` reports it. Default: the first that answers. */
  readonly processId?: string
  readonly signal?: AbortSignal
}

/** A client of one rollout server that fetches results under a lease. */
export interface RolloutClient extends AsyncDisposable {
  /**
   * Sends a rollout and resolves once the server has admitted it. Retries when the server is full (429), after
   * its `Retry-After`, and in no other case. From then on the result is polled, which renews the lease.
   *
   * @throws OsmosisError with code `invalid_request` for an order that cannot be sent, `timeout` when
   * there was no room in time, `unauthorized`, `protocol_error` for any other answer or none; the
   * reason of `signal`. If the message says that the rollout may have been admitted, do not cancel it by its
   * id, and use a new `rolloutId` for another attempt.
   */
  run(order: LeasedOrder, options?: LeasedRunOptions): Promise<RolloutHandle>
  /**
   * Closes admission at the server permanently, and waits this long for its rollouts (seconds, 0 to 300,
   * default 30). Results can still be fetched. Not retried; safe to call again.
   *
   * @throws OsmosisError with code `invalid_request`, `unauthorized` or `protocol_error`; the reason
   * of `signal`
   */
  drain(options?: {
    readonly timeoutSeconds?: number
    readonly signal?: AbortSignal
  }): Promise<DrainReport>
  /**
   * Resolves when the server has no active rollout of any caller; polls every second. Retries while the server
   * is unreachable.
   *
   * @throws OsmosisError with code `invalid_request`, `timeout`, `unauthorized`, or `protocol_error` when the answer is
   * incomplete or the server was restarted; the reason of `signal`
   */
  waitIdle(options?: WaitIdleOptions): Promise<IdleReport>
  /** Stops polling without a message to the server, and closes the connections. Safe to call again. */
  close(): Promise<void>
}

/**
 * Opens a client of a rollout server. It fetches results, so the server needs to reach only the policy. The
 * caller closes it.
 *
 * @throws OsmosisError with code `invalid_config` for a `baseUrl` or a key that cannot be used
 */
export function createRolloutClient(options: RolloutClientOptions): RolloutClient {
  const server = addressOf(options)
  const connection = { server, client: new ServerClient() }
  const closed = new AbortController()
  const followed = new Set<FollowedRollout>()
  let closing: Promise<void> | undefined

  const until = (signal: AbortSignal | undefined): AbortSignal => {
    const either = AbortSignal.any([closed.signal, ...(signal ? [signal] : [])])
    either.throwIfAborted()
    return either
  }

  async function shutDown(): Promise<void> {
    const message = 'The rollout client was closed.'
    closed.abort(new OsmosisError('cancelled', message))
    const following = [...followed]
    for (const rollout of following) rollout.stop(message)
    await Promise.all(following.map(({ over }) => over))
    await connection.client.close()
  }
  const close = (): Promise<void> => (closing ??= shutDown())

  return {
    async run(order, run = {}) {
      const signal = until(run.signal)
      const seconds = run.admissionTimeoutSeconds ?? options.admissionTimeoutSeconds ?? Infinity
      if (!(seconds >= 0)) {
        const message = `admissionTimeoutSeconds must be a number of at least 0, got ${seconds}.`
        throw new OsmosisError('invalid_request', message)
      }
      const limits = { limitMs: seconds * 1000, signal }
      const lease = await admit(connection, toLeasedRequest(order), limits)
      closed.signal.throwIfAborted()
      const rollout = new FollowedRollout(connection, lease, {
        closed: closed.signal,
        onOver: () => followed.delete(rollout),
      })
      followed.add(rollout)
      return rollout
    },
    drain: async ({ timeoutSeconds = 30, signal } = {}) =>
      drain(connection, { timeoutSeconds, signal: until(signal) }),
    waitIdle: async ({ timeoutSeconds = 120, processId, signal } = {}) =>
      waitIdle(connection, { timeoutSeconds, processId, signal: until(signal) }),
    close,
    [Symbol.asyncDispose]: close,
  }
}

function addressOf({ baseUrl, apiKey }: RolloutClientOptions): ServerAddress {
  assertApiKey(apiKey)
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined
  const isUsable = url?.protocol === 'http:' || url?.protocol === 'https:'
  if (!isUsable || url.username || url.password || url.search || url.hash) {
    throw new OsmosisError(
      'invalid_config',
      'baseUrl must be an http or https URL without credentials, query and fragment, e.g. http://127.0.0.1:9000.',
    )
  }
  return { url: baseUrl, ...(apiKey === undefined ? {} : { apiKey }) }
}
