import { availableParallelism } from 'node:os'

import type { ServerProcess } from './server-process.ts'

/** A run that is shorter gains nothing that anybody would notice. Milliseconds. */
const shortestMs = 2_000
/** Of the time, from which on the thread of the server is what the rollouts wait for. */
const busyShare = 0.7

/**
 * Watches the thread that all rollouts of a server share.
 *
 * @returns what says, when the rollouts have ended, that worker processes would have run them sooner;
 * undefined when they would not
 */
export async function watchThread(
  server: Pick<ServerProcess, 'url' | 'apiKey' | 'kind'>,
): Promise<() => Promise<string | undefined>> {
  const cores = availableParallelism()
  if (server.kind !== 'workflow' || cores === 1) return async () => undefined
  const since = performance.now()
  // Each look is about the time since the one before.
  await utilization(server)
  return async () => {
    const share = await utilization(server)
    if (performance.now() - since < shortestMs || share < busyShare) return undefined
    const percent = Math.floor(share * 100)
    return `The workflow kept its thread busy for ${percent} % of the time. --workers auto runs rollouts on all ${cores} cores.`
  }
}

/** The share of the time in which the event loop was busy; 0 when the server does not say. */
async function utilization({
  url,
  apiKey,
}: Pick<ServerProcess, 'url' | 'apiKey'>): Promise<number> {
  try {
    const headers = { authorization: `Bearer ${apiKey}` }
    const text = await (await fetch(`${url}/metrics`, { headers })).text()
    return Number(/^nodejs_eventloop_utilization (\S+)$/m.exec(text)?.[1] ?? 0)
  } catch {
    // Whoever drives the rollouts says so better.
    return 0
  }
}
