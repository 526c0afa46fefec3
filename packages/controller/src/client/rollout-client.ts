import { OsmosisError } from '@osmosis/core'
import { assertApiKey } from '@osmosis/core/http'

import { ServerClient, type ServerAddress } from '../http/server-client.ts'
import { admit } from './admission.ts'
import { toLeasedRequest, type LeasedOrder } from './leased-order.ts'
import { FollowedRollout, type RolloutHandle } from './rollout-handle.ts'
import { drain, waitIdle, type DrainReport, type IdleReport } from './server-lifecycle.ts'

/** Options of {@link createRolloutClient}. */
export interface RolloutClientOptions {
  /** Where the rollout server listens; its routes are appended. */
  readonly baseUrl: string
  /** Bearer key of the server, not of the policy. Default: none is sent. */
  readonly apiKey?: string
  /** How long `run` may wait for room at a full server. Seconds. Default: no limit. */
  readonly admissionTimeoutSeconds?: number
}

/** Options of `RolloutClient.run`. */
export interface LeasedRunOptions {
  /** Ends waiting for admission. A rollout whose admission is not known lapses by itself. */
  readonly signal?: AbortSignal
  /** Default: the client's own. */
  readonly admissionTimeoutSeconds?: number
}

/** Options of `RolloutClient.waitIdle`. */
export interface WaitIdleOptions {
  /** Default: 120. */
  readonly timeoutSeconds?: number
  /** The process that is waited for, as `drain` reports it. Default: the first that answers. */
  readonly processId?: string
  readonly signal?: AbortSignal
}

/** A caller of one rollout server that fetches results under a lease. */
export interface RolloutClient extends AsyncDisposable {
  /**
   * Sends a rollout and resolves once the server has admitted it. A full server (429) is asked again
   * when it says so; nothing else is. The result is followed from then on, which keeps the lease.
   *
   * @throws OsmosisError with code `invalid_request` for an order that cannot be sent, `timeout` when
   * there was no room in time, `unauthorized`, `protocol_error` for any other answer or none; the
   * reason of `signal`. Where the message says that the rollout may have been admitted, it must not
   * be cancelled by its id, and another attempt needs a new `rolloutId`.
   */
  run(order: LeasedOrder, options?: LeasedRunOptions): Promise<RolloutHandle>
  /**
   * Closes admission at the server, for good, and gives what runs there this long to end (seconds,
   * 0 to 300, default 30). Results can be fetched as before. Not tried again; safe to call again.
   *
   * @throws OsmosisError with code `invalid_request`, `unauthorized` or `protocol_error`; the reason
   * of `signal`
   */
  drain(options?: {
    readonly timeoutSeconds?: number
    readonly signal?: AbortSignal
  }): Promise<DrainReport>
  /**
   * Resolves when no rollout is active at the server, of whatever caller; looks every second. A
   * server that cannot be reached for a while is asked again.
   *
   * @throws OsmosisError with code `timeout`, `unauthorized`, or `protocol_error` when the server does
   * not say what it needs to, or was restarted; the reason of `signal`
   */
  waitIdle(options?: WaitIdleOptions): Promise<IdleReport>
  /** Stops following, which no server is told, and closes the connections. Safe to call again. */
  close(): Promise<void>
}

/**
 * Opens a caller of a rollout server that needs no callbacks: it fetches results, so that nothing has to
 * be reachable from the server but the policy. The caller closes it.
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
        const message = 'admissionTimeoutSeconds must be a number of 0 or more.'
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
