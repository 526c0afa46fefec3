import type { Logger } from './logger.ts'
import type { RolloutServerOptions } from './rollout-server-options.ts'

/** A rollout server without a port: a Web-standard handler, and the work behind it. */
export interface RolloutServer extends AsyncDisposable {
  /** Answers one request. */
  readonly fetch: (request: Request) => Promise<Response>
  /** Whether callers have to present a key. */
  readonly requiresKey: boolean
  /** Callbacks that no controller has acknowledged: on their way, refused, or given up. */
  readonly undelivered: number
  /** The server's log; secrets are redacted before they get there. */
  readonly logger: Logger
  /**
   * Stops admitting rollouts, waits for the running ones, ends those that outlast the wait and
   * delivers their failure callbacks. Resolves when nothing is left to do; a second call waits
   * for the first and can only shorten its wait.
   *
   * @param options - `waitSeconds` overrides `drainSeconds`
   */
  drain(options?: { waitSeconds?: number }): Promise<void>
  /** Drains, then closes the connections that callbacks went over. */
  close(): Promise<void>
}

/** Puts HTTP in front of a backend. Whoever makes a server closes it. */
export declare function createRolloutServer(options: RolloutServerOptions): RolloutServer
