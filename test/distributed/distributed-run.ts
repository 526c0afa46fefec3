import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { Account } from '../faults/account.ts'
import { breakDelivery, type WayToBreak } from '../faults/broken-delivery.ts'
import { Callers } from '../faults/callers.ts'
import { chances } from '../faults/chance.ts'
import { World } from '../faults/world.ts'
import { doubtOf, faultCases, planOf, type CaseName, type FaultCase } from './fault-cases.ts'
import { Fleet, shortLockSeconds } from './fleet.ts'
import { leftovers, traceOf } from './leftovers.ts'

/** What can be broken, to test that the account detects it. */
export type Breakage = WayToBreak | 'no mark' | 'no AOF'

export interface DistributedRun {
  readonly name: CaseName
  readonly rollouts: number
  readonly seed: number
  /** How long a caller waits for the end of its rollout. */
  readonly patienceSeconds: number
  readonly breaks: Breakage | undefined
}

const unmarkedWorker = path.join(import.meta.dirname, 'unmarked-worker.ts')

/** Runs the rollouts of one case on its own fleet. The account has the result. */
export async function runCase(run: DistributedRun): Promise<Account> {
  const { name, rollouts, seed, patienceSeconds, breaks } = run
  const faultCase: FaultCase = faultCases[name]
  const { inFlight = 64, concurrency = 32, skewSeconds = 0, incidents = [] } = faultCase
  const chance = chances(seed)
  const account = new Account({ chance, doubt: doubtOf(name) })
  const way = breaks === 'no mark' || breaks === 'no AOF' ? undefined : breaks
  const world = await new World({
    account,
    chance,
    broken: breakDelivery(way, chance),
    patienceSeconds,
    mild: true,
    policyMs: (id, call) => 50 + chance(id, 'policy takes', call) * 450,
  }).start()
  const fleet = await Fleet.start({
    chance,
    concurrency,
    skewSeconds,
    aof: breaks !== 'no AOF',
    standby: faultCase.standby,
    // In a case that loses no workers, none must be lost because the machine is busy.
    lockSeconds: faultCase.losesWorkers ? shortLockSeconds : 30,
    workerScript: breaks === 'no mark' ? unmarkedWorker : undefined,
    onWorkerEnd: (what) => {
      const isExpected = name === 'poison' || name === 'everything'
      if (isExpected) account.fault(`fleet: ${what.replace(/:[^]*/, '')}`)
      return isExpected
    },
    onTrouble: (what) => account.violated('-', what),
  })
  const { url } = fleet
  const callers = new Callers(
    { account, chance, broken: breakDelivery(way, chance), patienceSeconds },
    { world: world.url, workflows: url, loops: url, lossy: url },
  )

  const over = new AbortController()
  const { signal } = over
  const reached = async (part: number): Promise<boolean> => {
    while (account.endedCount < part * rollouts && !signal.aborted) await sleep(20)
    return !signal.aborted
  }
  const parts = { fleet, account, chance, reached, signal }
  const happening = Promise.all(incidents.map(async (incident) => incident(parts)))
  const indexes = Array.from({ length: rollouts }, (_, index) => index).values()
  const drive = async (): Promise<void> => {
    for (const index of indexes) {
      await callers.drive(planOf(name, index, { chance, noteUrl: world.url }))
    }
  }
  await Promise.all(Array.from({ length: inFlight }, drive))
  over.abort()
  await happening
  for (const { plan, end, admission } of account.ends()) {
    if (end !== undefined || admission !== 'accepted') continue
    console.log(`${plan.id} has no end:\n  ${await traceOf(fleet.redis.primary.url, plan.id)}`)
  }
  await callers.checkStates({ mayForget: false })
  for (const found of await leftovers(fleet.redis.primary.url))
    account.violated('-', `Redis: ${found}`)
  await callers.close()
  await fleet.close('SIGTERM')
  world.close()
  return account
}
