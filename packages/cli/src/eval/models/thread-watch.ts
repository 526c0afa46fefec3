import { availableParallelism } from 'node:os'

import type { EvaluatedServer } from './remote-servers.ts'

/** A run that is shorter gains nothing that anybody would notice. Milliseconds. */
const shortestMs = 2_000
/** Of the time, from which on the thread of the server is what the rollouts wait for. */
const busyShare = 0.7
/** Of the thread for each rollout: less is the protocol, which workers do not take over. Milliseconds. */
const leastMsPerRollout = 5

/** The thread that all rollouts of a server share. */
export interface WatchedThread {
  /** Counts a rollout. */
  rolloutBegins(): void
  /**
   * Says, when the rollouts have ended, that worker processes would have run them sooner; undefined when
   * they would not.
   */
  advice(): Promise<string | undefined>
}

/** Watches the thread of a server from now on. */
export async function watchThread(
  server: Pick<EvaluatedServer, 'url' | 'apiKey'>,
): Promise<WatchedThread> {
  // Each look is about the time since the one before.
  await utilization(server)
  const since = performance.now()
  let rollouts = 0
  return {
    rolloutBegins: () => {
      rollouts += 1
    },
    advice: async () => {
      const share = await utilization(server)
      const ms = performance.now() - since
      const isHeldUp = share > busyShare && share * ms > leastMsPerRollout * rollouts
      if (ms < shortestMs || !isHeldUp) return undefined
      const percent = Math.floor(share * 100)
      return `The workflow kept its thread busy for ${percent} % of the time. --workers auto runs rollouts on all ${availableParallelism()} cores.`
    },
  }
}

/** The share of the time in which the event loop was busy; 0 when the server does not say. */
async function utilization({
  url,
  apiKey,
}: Pick<EvaluatedServer, 'url' | 'apiKey'>): Promise<number> {
  try {
    const headers = { authorization: `Bearer ${apiKey}` }
    const text = await (await fetch(`${url}/metrics`, { headers })).text()
    return Number(/^nodejs_eventloop_utilization (\S+)$/m.exec(text)?.[1] ?? 0)
  } catch {
    // Whoever drives the rollouts says so better.
    return 0
  }
}
