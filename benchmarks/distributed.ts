// What a queue adds to rollouts, beside a server that runs them itself and one with workers of its own:
// time, processor time of all processes together, commands and bytes in Redis, and the time to recover
// from a killed worker. Redis is a real one, with an append-only file that is synced each second.
//
//   npx -y pnpm@12 run bench distributed [rollouts | replica]
//
// With a number it only measures that many concurrent rollouts over four workers, and with "replica" what it costs that
// outcomes are told when a replica of Redis has them.
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

import { Cluster } from './cluster-process.ts'
import { Deployment, MeasuredRedis } from './distributed-deployment.ts'
import { median, quantile, rounded } from './figures.ts'
import type { LoadResult } from './training-cluster.ts'

// 20 KB come in, and a sample with four answers has 50.
const texts = { prompt: 20_000, answer: 7_500 }
/** V8 optimises busy code late: fewer rollouts would measure its compiler in three processes. */
const warmUp = { name: 'warm', inFlight: 64, rollouts: 10_000, latencyMs: 5, texts }
const rounds = [
  { inFlight: 1, rollouts: 100, latencyMs: 5 },
  { inFlight: 64, rollouts: 1_500, latencyMs: 50 },
  { inFlight: 250, rollouts: 2_000, latencyMs: 250 },
]
const goals = { p50: 5, cpu: 1 }

async function measureAll(redis: MeasuredRedis): Promise<void> {
  const costs = await measureCosts(redis)
  printCosts(costs)
  const commands = await countCommands(redis)
  printCommands(commands)
  const bytes = await measureBytes(redis)
  printBytes(bytes)
  const recoveries = [await recover(redis, 2_000), await recover(redis)]
  printJson({ costs, commands, bytes, recoveries })
}

interface Cost {
  readonly setup: string
  readonly inFlight: number
  readonly perSecond: number
  /** From the request to the callback that ends a rollout. Milliseconds. */
  readonly p50: number
  readonly p99: number
  /** Of all processes together, and of each kind, per rollout. Milliseconds. */
  readonly cpu: number
  readonly cpuOf: Readonly<Record<string, number>>
}

async function measureCosts(redis: MeasuredRedis): Promise<Cost[]> {
  const overTwo = { workers: 2, concurrency: 250 }
  const setups = [
    ['in process', await Deployment.start([{ kind: 'in-process' }])],
    ['workers', await Deployment.start([{ kind: 'pool' }])],
    ['bare queue', await Deployment.overQueue(redis, { ...overTwo, prefix: 'bare', isBare: true })],
    ['queue', await Deployment.overQueue(redis, { ...overTwo, prefix: 'costs' })],
  ] as const
  const cluster = await Cluster.start()
  for (const [, deployment] of setups) await cluster.drive(deployment, warmUp)
  const costs: Cost[] = []
  for (const round of rounds) {
    for (const [setup, deployment] of setups) {
      const { inFlight, rollouts } = round
      const before = await deployment.cpu()
      const result = await cluster.drive(deployment, { ...round, texts, name: `of-${inFlight}` })
      const after = await deployment.cpu()
      assertRewarded(result, rollouts)
      const cpuOf = Object.fromEntries(
        [...after].map(([kind, ms]) => [kind, rounded((ms - (before.get(kind) ?? 0)) / rollouts)]),
      )
      costs.push({
        setup,
        inFlight,
        perSecond: Math.round(rollouts / (result.wallMs / 1000)),
        p50: rounded(median(result.durations), 1),
        p99: rounded(quantile(result.durations, 0.99), 1),
        cpu: rounded(Object.values(cpuOf).reduce((sum, ms) => sum + ms, 0)),
        cpuOf,
      })
    }
  }
  cluster.end()
  for (const [, deployment] of setups) await deployment.end()
  return costs
}

/** The same Redis with a replica, once without waiting for it. */
async function measureReplica(redis: MeasuredRedis): Promise<void> {
  const blind = await redis.replicate()
  const over = async (prefix: string, url: string): Promise<Deployment> =>
    Deployment.overQueue({ url, pid: redis.pid }, { prefix, workers: 2, concurrency: 250 })
  const setups = [
    ['at-once', await over('blind', blind)],
    ['confirmed', await over('seen', redis.url)],
  ] as const
  const cluster = await Cluster.start()
  for (const [, deployment] of setups) {
    await cluster.drive(deployment, { ...warmUp, rollouts: 2_000 })
  }
  for (const { inFlight, rollouts, latencyMs } of rounds) {
    const figures: { cpu: number; p50: number }[] = []
    for (const [setup, deployment] of setups) {
      const before = sumOf(await deployment.cpu())
      const load = { inFlight, rollouts, latencyMs, texts, name: `${setup}-${inFlight}` }
      const result = await cluster.drive(deployment, load)
      assertRewarded(result, rollouts)
      const cpu = (sumOf(await deployment.cpu()) - before) / rollouts
      const p50 = rounded(median(result.durations), 1)
      figures.push({ cpu, p50 })
      console.log(`${inFlight} in flight, ${setup}: p50 ${p50} ms, ${rounded(cpu)} ms of CPU`)
    }
    const [blindly, confirmed] = figures as [(typeof figures)[0], (typeof figures)[0]]
    const ratio = (key: 'cpu' | 'p50'): number => rounded(confirmed[key] / blindly[key])
    console.log(
      `${inFlight} in flight: ${ratio('p50')} times the time, ${ratio('cpu')} times the CPU`,
    )
  }
  cluster.end()
  for (const [, deployment] of setups) await deployment.end()
}

function sumOf(times: ReadonlyMap<string, number>): number {
  return [...times.values()].reduce((sum, ms) => sum + ms, 0)
}

/** The commands of Redis for one rollout after another. */
async function countCommands(redis: MeasuredRedis): Promise<Record<string, number>> {
  const prefix = 'commands'
  const queue = await Deployment.overQueue(redis, { prefix, workers: 1, concurrency: 10 })
  const cluster = await Cluster.start()
  const rollouts = 50
  const load = { inFlight: 1, rollouts, latencyMs: 5, texts }
  await cluster.drive(queue, { ...load, name: 'warm' })
  const counts = await redis.commandsOf(prefix, async () => {
    await cluster.drive(queue, { ...load, name: 'counted' })
  })
  cluster.end()
  await queue.end()
  const each = [...counts].map(
    ([command, count]) => [command, rounded(count / rollouts, 1)] as const,
  )
  return Object.fromEntries(
    each.filter(([, count]) => count >= 0.1).toSorted(([, a], [, b]) => b - a),
  )
}

interface Bytes {
  readonly inFlight: number
  readonly ended: number
  /** Bytes after everything has expired, relative to the bytes before. */
  readonly left: number
  readonly recordsLeft: number
}

async function measureBytes(redis: MeasuredRedis): Promise<Bytes> {
  const prefix = 'bytes'
  const rollouts = 300
  const queue = await Deployment.overQueue(redis, { prefix, workers: 2, concurrency: rollouts })
  const cluster = await Cluster.start()
  const load = { inFlight: rollouts, rollouts, latencyMs: 5, texts }
  await cluster.drive(queue, { ...load, name: 'warm' })
  await redis.expire(prefix)
  const before = await redis.bytes()
  await cluster.hold(queue, { ...load, name: 'held' })
  const during = await redis.bytes()
  assertRewarded(await cluster.release(), rollouts)
  await sleep(1_000)
  const after = await redis.bytes()
  const recordsLeft = await redis.expire(prefix)
  const expired = await redis.bytes()
  cluster.end()
  await queue.end()
  return {
    inFlight: Math.round((during - before) / rollouts),
    ended: Math.round((after - before) / rollouts),
    left: rounded(expired / before),
    recordsLeft,
  }
}

interface Recovery {
  /** How long a worker may be silent. Milliseconds. */
  readonly lockMs: number
  /** From the kill to the end of the last rollout that had called the policy. Seconds. */
  readonly askedSeconds: number
  /** … and of the last that had not, and was run again. */
  readonly againSeconds: number
  readonly failed: number
}

/** Kills one of two workers when half of the rollouts have called the policy and half have not. */
async function recover(redis: MeasuredRedis, lockDurationMs?: number): Promise<Recovery> {
  const each = 40
  const lock =
    lockDurationMs === undefined ? {} : { lockDurationMs, stalledIntervalMs: lockDurationMs / 2 }
  const prefix = `recovery-${lockDurationMs ?? 'default'}`
  const options = { prefix, workers: 2, concurrency: each, ...lock }
  const queue = await Deployment.overQueue(redis, options)
  const clusters = [await Cluster.start(), await Cluster.start()] as const
  const load = { inFlight: each, rollouts: each, texts }
  let killedAt = 0
  const ended = async (result: Promise<LoadResult>) => {
    const { rewarded, failed } = await result
    return { seconds: rounded((performance.now() - killedAt) / 1000, 1), rewarded, failed }
  }
  const ends = Promise.all([
    ended(clusters[0].drive(queue, { ...load, name: 'asked', latencyMs: 500 })),
    ended(
      clusters[1].drive(queue, {
        ...load,
        name: 'again',
        latencyMs: 5,
        metadata: { wait_ms: 2_000 },
      }),
    ),
  ])
  await sleep(1_200)
  killedAt = performance.now()
  queue.killWorker()
  const [asked, again] = await ends
  for (const cluster of clusters) cluster.end()
  await queue.end()
  if (again.failed > 0) throw new Error('a rollout failed that had not called the policy')
  const lockMs = lockDurationMs ?? 30_000
  console.log(
    `a worker is killed, lock ${lockMs / 1000} s: ${asked.failed} of ${each} that had asked have failed after ${asked.seconds} s, ${again.rewarded} of ${each} that had not have ended after ${again.seconds} s (2 s of which they wait)`,
  )
  return { lockMs, askedSeconds: asked.seconds, againSeconds: again.seconds, failed: asked.failed }
}

/** Rollouts in flight over four workers. */
async function hold(redis: MeasuredRedis, rollouts: number): Promise<void> {
  const concurrency = Math.ceil(rollouts / 4)
  const queue = await Deployment.overQueue(redis, { prefix: 'held', workers: 4, concurrency })
  const cluster = await Cluster.start()
  await cluster.drive(queue, warmUp)
  await queue.figures()
  const idleBytes = await redis.bytes()
  const before = await queue.cpu()
  const started = performance.now()
  await cluster.hold(queue, {
    inFlight: rollouts,
    rollouts,
    latencyMs: 1_000,
    texts,
    name: 'held',
  })
  const heldSeconds = (performance.now() - started) / 1000
  const bytes = (await redis.bytes()) - idleBytes
  const starting = await queue.figures()
  const settled = await queue.cpu()
  await sleep(10_000)
  const waiting = await queue.figures()
  const waited = await queue.cpu()
  const result = await cluster.release()
  const ending = await queue.figures()
  const after = await queue.cpu()
  assertRewarded(result, rollouts)
  cluster.end()
  await queue.end()
  console.log(
    `${rollouts} rollouts in flight after ${rounded(heldSeconds, 1)} s; all have ended, once`,
  )
  console.log(
    `Redis: ${rounded(bytes / 1024 / 1024, 1)} MB, ${Math.round(bytes / rollouts)} bytes each`,
  )
  const processes = starting.map(({ kind }, n) => ({
    kind,
    mb: Math.round((waiting[n]?.rss ?? 0) / 1024 / 1024),
    loopP99: [starting, waiting, ending].map((figures) => rounded(figures[n]?.loopP99Ms ?? 0, 1)),
  }))
  for (const { kind, mb, loopP99 } of processes) {
    console.log(
      `${kind}: ${mb} MB, event loop p99 ${loopP99.join(', ')} ms while they start, wait and end`,
    )
  }
  const cpu = [...after].map(([kind, ms]) => ({
    kind,
    perRollout: rounded((ms - (before.get(kind) ?? 0)) / rollouts),
    waitingShare: rounded(((waited.get(kind) ?? 0) - (settled.get(kind) ?? 0)) / 10_000),
  }))
  for (const { kind, perRollout, waitingShare } of cpu) {
    console.log(
      `${kind}: ${perRollout} ms of CPU per rollout; ${waitingShare} cores while all wait`,
    )
  }
  printJson({ rollouts, bytes, processes, cpu })
}

function printCosts(costs: readonly Cost[]): void {
  const pad = (cells: readonly (string | number)[]): string =>
    cells.map((cell) => String(cell).padStart(11)).join('')
  console.log(pad(['in flight', 'rollouts', 'per second', 'p50 (ms)', 'p99 (ms)', 'CPU (ms)']))
  for (const cost of costs) {
    const { inFlight, setup, perSecond, p50, p99, cpu, cpuOf } = cost
    const parts = Object.entries(cpuOf).map(([kind, ms]) => `${kind} ${ms}`)
    console.log(pad([inFlight, setup, perSecond, p50, p99, cpu]), ` ${parts.join(', ')}`)
  }
  for (const { inFlight } of rounds) {
    const of = (name: string): Cost | undefined =>
      costs.find((cost) => cost.setup === name && cost.inFlight === inFlight)
    const added = (key: 'p50' | 'cpu', what: string, to: string): number =>
      rounded((of(what)?.[key] ?? 0) - (of(to)?.[key] ?? 0))
    for (const [what, to] of [
      ['queue', 'in process'],
      ['workers', 'in process'],
      ['queue', 'bare queue'],
    ] as const) {
      const ms = added('p50', what, to)
      const cpu = added('cpu', what, to)
      const goal = what === 'queue' && to === 'in process'
      console.log(
        `${inFlight} in flight, ${what} added to ${to}: ${ms} ms${goal ? ` (goal: at most ${goals.p50})` : ''}, ${cpu} ms of CPU${goal ? ` (goal: less than ${goals.cpu})` : ''}`,
      )
    }
  }
}

function printCommands(commands: Readonly<Record<string, number>>): void {
  const outside = Object.entries(commands).filter(([name]) => !name.startsWith('lua '))
  const sum = outside.reduce((total, [, count]) => total + count, 0)
  console.log(`Redis is sent ${rounded(sum, 1)} commands per rollout, one after another:`)
  for (const [name, count] of outside) console.log(`${String(count).padStart(8)}  ${name}`)
}

function printBytes({ inFlight, ended, left, recordsLeft }: Bytes): void {
  console.log(
    `bytes in Redis: ${inFlight} per rollout in flight, ${ended} when it has ended; when they have expired there is ${left} times what there was (goal: 1), and ${recordsLeft} records (goal: 0)`,
  )
}

function printJson(figures: object): void {
  console.log(JSON.stringify({ node: process.version, load: loadavg()[0], ...figures }))
}

function assertRewarded({ rewarded, failed, repeated }: LoadResult, rollouts: number): void {
  if (rewarded === rollouts && repeated === 0) return
  throw new Error(`${rewarded} ended with a reward, ${failed} without, ${repeated} twice`)
}

const [, , rollouts] = process.argv
const redis = await MeasuredRedis.start()
try {
  if (rollouts === undefined) await measureAll(redis)
  else if (rollouts === 'replica') await measureReplica(redis)
  else await hold(redis, Number(rollouts))
} finally {
  await redis.end()
}
process.exit()
