import type { RolloutServer } from './rollout-server.ts'

/** Options of {@link serve}. */
export interface ServeOptions {
  /** 0 picks a free one; default 8000. */
  port?: number | undefined
  /** Address to listen on; default `127.0.0.1`. */
  host?: string | undefined
  /** Closes the server when aborted. */
  signal?: AbortSignal | undefined
  /**
   * Makes the server the owner of its process (default true): SIGTERM and SIGINT drain and close
   * it, a second one ends the process at once; a stray rejection of user code is logged; an
   * uncaught exception is logged, fails what is running and ends the process.
   */
  handleSignals?: boolean | undefined
  /** Lets a server without a key listen on an address that other machines can reach. */
  allowUnauthenticated?: boolean | undefined
}

/** A server that listens. */
export interface ListeningServer extends AsyncDisposable {
  /** Where it listens, without a slash at the end. */
  readonly url: string
  readonly port: number
  /** Resolves when it has been closed, whoever asked for it. */
  readonly closed: Promise<void>
  /** Drains the rollout server, then closes the port. Idempotent. */
  close(): Promise<void>
}

/**
 * Serves HTTP on Node. Resolves when it listens; the caller closes it, or a signal does.
 *
 * @throws OsmosisError with code `port_in_use`, or `invalid_config` for an open address without
 * a key
 */
export declare function serve(
  server: RolloutServer,
  options?: ServeOptions,
): Promise<ListeningServer>
