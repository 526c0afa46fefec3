import { LeaseClient, type LeaseHandle } from '../../../test/kit/index.ts'
import { startServer, type RunningServer, type RunningServerOptions } from './running-server.ts'

/** A running server and a caller that fetches results from it. */
export interface LeasingServer extends RunningServer {
  readonly client: LeaseClient
  /** The body of a leased rollout. */
  body(overrides?: Record<string, unknown>): Record<string, unknown>
  start(overrides?: Record<string, unknown>): Promise<LeaseHandle>
}

export async function leasing(options: RunningServerOptions = {}): Promise<LeasingServer> {
  // The end does not wait for results that a test did not fetch.
  const running = await startServer({ shutdownGraceSeconds: 0.1, ...options })
  const client = new LeaseClient({ url: running.url, apiKey: [options.apiKey].flat()[0] })
  const body: LeasingServer['body'] = (overrides) =>
    running.controller.rolloutBody({ completion_callback_url: undefined, ...overrides })
  const start: LeasingServer['start'] = async (overrides) => client.start(body(overrides))
  return Object.assign(running, { client, body, start })
}
