import { setTimeout as sleep } from 'node:timers/promises'

import { Redis } from 'ioredis'

import type { Account } from '../faults/account.ts'
import type { Chance } from '../faults/chance.ts'
import type { Program } from '../faults/served-process.ts'
import { shortLockSeconds, type Fleet } from './fleet.ts'

/** The parts that an incident works with. */
interface IncidentParts {
  readonly fleet: Fleet
  readonly account: Account
  readonly chance: Chance
  /** Resolves when this fraction of all rollouts has ended; with false when all have. */
  readonly reached: (part: number) => Promise<boolean>
  /** Aborted when all rollouts have ended. */
  readonly signal: AbortSignal
}

/** A rollout that waits at least this long before its first call is still waiting when its worker is killed. */
const leastIdleMs = 500

/** Something that happens to a fleet while its rollouts are in progress. */
export type Incident = (parts: IncidentParts) => Promise<void>

export const killWorkers: Incident = async (parts) => {
  const { fleet, account, reached } = parts
  for (const [turn, part] of [0.1, 0.3, 0.5, 0.7].entries()) {
    if (!(await reached(part))) return
    const worker = await workerWithUncalled(parts, turn)
    account.fault('fleet: SIGKILL of a worker')
    await worker.end('SIGKILL')
    await fleet.startAgain(worker)
  }
}

export const stopWorkers: Incident = async (parts) => {
  const { account, reached } = parts
  for (const [turn, part] of [0.1, 0.5].entries()) {
    if (!(await reached(part))) return
    const worker = await workerWithUncalled(parts, turn)
    account.fault('fleet: a worker is stopped for longer than its lock')
    worker.signal('SIGSTOP')
    await sleep(shortLockSeconds * 2500)
    worker.signal('SIGCONT')
  }
}

export const killServers: Incident = async ({ fleet, account, reached }) => {
  for (const [turn, part] of [0.1, 0.4].entries()) {
    if (!(await reached(part))) return
    account.fault('fleet: SIGKILL of a server')
    const server = inTurn(fleet.servers, turn)
    await server.end('SIGKILL')
    await sleep(1000)
    await fleet.startAgain(server)
  }
}

export const restartRedis: Incident = async ({ fleet, account, reached }) => {
  for (const part of [0.2, 0.6]) {
    if (!(await reached(part))) return
    account.fault('fleet: SIGKILL of Redis')
    await fleet.redis.primary.kill()
    await sleep(1500)
    await fleet.redis.primary.restart()
  }
}

/** The replica takes the place of its primary: first as planned, and then because the primary is killed. */
export const failOver: Incident = async ({ fleet, account, reached }) => {
  if (!(await reached(0.2))) return
  account.fault('fleet: Redis and its replica change roles')
  await fleet.redis.switchRoles?.()
  if (!(await reached(0.6))) return
  account.fault('fleet: SIGKILL of Redis, whose replica takes its place')
  await fleet.redis.failOver?.()
}

/** Drops all messages and events, so that processes must read the records. */
export const cutEvents: Incident = async ({ fleet, account, signal }) => {
  const redis = new Redis(fleet.redis.primary.url)
  // While Redis is down.
  redis.on('error', () => {})
  try {
    for (let turn = 0; !signal.aborted; turn += 1) {
      if (turn % 5 === 0) {
        await redis.client('KILL', 'TYPE', 'PUBSUB').catch(() => undefined)
        account.fault('fleet: all subscriptions are cut')
      }
      for (const stream of await streams(redis)) {
        if ((await redis.xtrim(stream, 'MAXLEN', 0)) > 0) account.fault('fleet: events are lost')
      }
      await sleep(30)
    }
  } finally {
    redis.disconnect()
  }
}

/** Makes live workers count as lost, again and again. */
export const loseHeartbeats: Incident = async ({ fleet, account, signal }) => {
  const redis = new Redis(fleet.redis.primary.url)
  redis.on('error', () => {})
  try {
    while (!signal.aborted) {
      const keys = await redis.keys('osmosis:worker:*')
      if (keys.length > 0) account.fault('fleet: heartbeats are lost')
      if (keys.length > 0) await redis.del(keys)
      await sleep(150)
    }
  } finally {
    redis.disconnect()
  }
}

async function streams(redis: Redis): Promise<string[]> {
  const found: string[] = []
  const batches = redis.scanStream({ type: 'stream', count: 10_000 }) as AsyncIterable<string[]>
  for await (const keys of batches) found.push(...keys)
  return found
}

/**
 * The next worker in turn that executes a rollout without a call: only such a rollout is started again, and two
 * workers may hold all rollouts, so that the third has none. When all rollouts end first, any worker.
 */
async function workerWithUncalled(
  { fleet, account, chance, signal }: IncidentParts,
  turn: number,
): Promise<Program> {
  const first = Math.floor(chance('first worker') * fleet.workers.length) + turn
  const workers = fleet.workers.map((_, index, all) => inTurn(all, first + index))
  while (!signal.aborted) {
    const found = workers.find(({ pid }) => account.holdsUncalled(pid, leastIdleMs))
    if (found !== undefined) return found
    await sleep(5)
  }
  return inTurn(workers, 0)
}

function inTurn<T>(all: readonly T[], turn: number): T {
  return all[turn % all.length] as T
}
