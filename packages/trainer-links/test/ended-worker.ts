import type {
  TrainerFault,
  TrainerFaults,
  ReceivedTrainerRequest,
} from '../../../test/kit/trainers/index.ts'
import { expect } from 'vitest'

import { gateway, startWorker, trainedRewards } from './gateway-worker.ts'
import { plannedAgent, row, type Plan } from './planned-agent.ts'

/** What a request to the gateway is for. */
export function purposeOf({ method, path, body }: ReceivedTrainerRequest): string {
  if (path.startsWith('/proxy/')) return 'model call'
  if (path.endsWith('/events')) return 'reward'
  if (method === 'GET') return path === '/api/rollouts' ? 'look' : 'look at one'
  const { state } = body['status'] as { state?: string }
  return state === 'running' ? 'claim' : 'end'
}

const plans: readonly Plan[] = [
  ...Array.from({ length: 6 }, (_, n) => ({ reward: n })),
  { afterwards: 'hangs' },
  { grading: 'hangs' },
  { afterwards: 'throws' },
  { grading: 'removes' },
]

/**
 * Stops a worker at the `count`-th request for `purpose`, which fails, and checks that everything that is trained has its
 * own reward. Resolves with the rollouts that are left open.
 */
export async function leftOpen(
  purpose: string,
  count: number,
  how: readonly (TrainerFault | undefined)[],
): Promise<string[]> {
  const open: string[] = []
  for (const fault of how) {
    let stop = (): void => {}
    let seen = 0
    const faults: TrainerFaults = (request) => {
      if (purposeOf(request) !== purpose || (seen += 1) !== count) return undefined
      stop()
      return fault
    }
    const { fake } = await gateway(
      plans.map((plan) => ({ input: row(plan) })),
      { faults },
    )
    const agent = plannedAgent()
    const worker = startWorker(fake, agent, { concurrency: 5 })
    const ended = Promise.withResolvers<void>()
    stop = () => void worker.stop().then(() => ended.resolve(), ended.reject)
    await ended.promise
    const rewards = trainedRewards(fake)
    for (const [n, { id, state }] of fake.rollouts.entries()) {
      if (state === 'running') open.push(`${fault} ${id}`)
      const { reward } = plans[n] ?? {}
      const isTrained = state === 'succeeded' && reward !== undefined
      expect([fault, id, rewards[id]]).toEqual([
        fault,
        id,
        isTrained ? [reward, reward] : undefined,
      ])
    }
  }
  return open
}
