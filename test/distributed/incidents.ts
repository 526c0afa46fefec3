import { setTimeout as sleep } from 'node:timers/promises'

import { Redis } from 'ioredis'

import type { Account } from '../faults/account.ts'
import type { Chance } from '../faults/chance.ts'
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

/** Something that happens to a fleet while its rollouts are in progress. */
export type Incident = (parts: IncidentParts) => Promise<void>

export const killWorkers: Incident = async ({ fleet, account, chance, reached }) => {
  const first = chance('killed first')
  for (const [turn, part] of [0.1, 0.3, 0.5, 0.7].entries()) {
    if (!(await reached(part))) return
    account.fault('fleet: SIGKILL of a worker')
    const worker = inTurn(fleet.workers, first, turn)
    await worker.end('SIGKILL')
    await fleet.startAgain(worker)
  }
}

export const stopWorkers: Incident = async ({ fleet, account, chance, reached }) => {
  const first = chance('stopped first')
  for (const [turn, part] of [0.1, 0.5].entries()) {
    if (!(await reached(part))) return
    account.fault('fleet: a worker is stopped for longer than its lock')
    const worker = inTurn(fleet.workers, first, turn)
    worker.signal('SIGSTOP')
    await sleep(shortLockSeconds * 2500)
    worker.signal('SIGCONT')
  }
}

export const killServers: Incident = async ({ fleet, account, reached }) => {
  for (const [turn, part] of [0.1, 0.4].entries()) {
    if (!(await reached(part))) return
    account.fault('fleet: SIGKILL of a server')
    const server = inTurn(fleet.servers, 0, turn)
    await server.end('SIGKILL')
    await sleep(1000)
    await fleet.startAgain(server)
  }
}

export const restartRedis: Incident = async ({ fleet, account, reached }) => {
  for (const part of [0.2, 0.6]) {
    if (!(await reached(part))) return
    account.fault('fleet: SIGKILL of Redis')
    await fleet.redis.kill()
    await sleep(1500)
    await fleet.redis.restart()
  }
}

/** Drops all messages and events, so that processes must read the records. */
export const cutEvents: Incident = async ({ fleet, account, signal }) => {
  const redis = new Redis(fleet.redis.url)
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
  const redis = new Redis(fleet.redis.url)
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

/** Two workers may hold all rollouts, so each must have its turn: an incident that always hits the third shows nothing. */
function inTurn<T>(all: readonly T[], first: number, turn: number): T {
  return all[(Math.floor(first * all.length) + turn) % all.length] as T
}
