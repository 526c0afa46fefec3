// What a rollout costs its server, as a multiple of what node:http alone needs for the same requests:
// four model calls, two callbacks. The servers are processes of their own, and so is the training
// cluster (policy, callbacks, driver): two of them share the load, and their own share of a core is
// shown, because a driver at its limit would be measured instead of the server.
//
// The servers take turns, a slice of the rollouts at a time, and what is shown is the median: other
// users of a machine slow it down for seconds and minutes, and would otherwise hit one server and not the other.
//
// The rollouts of these slices are sent as they end, at different times. A last slice of each server has all
// that are in flight sent in one moment: they move in step then, and one waits for all others at each step.
//
//   npx -y pnpm@12 run bench server [in flight …]
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { loadavg } from 'node:os'
import path from 'node:path'

import { Cluster } from './cluster-process.ts'
import { median, quantile, rounded } from './figures.ts'
import type { ServerFigures } from './server-under-test.ts'
import { calls, type Load, type LoadResult } from './training-cluster.ts'

type Kind = 'bare' | 'ours' | 'outbox'

/** Rollouts are those of a slice. Slices are odd in number, so that their median is one of them. */
const rounds = [
  { inFlight: 1, rollouts: 50, slices: 5, latencyMs: 20 },
  { inFlight: 64, rollouts: 800, slices: 9, latencyMs: 100 },
  { inFlight: 250, rollouts: 1_500, slices: 9, latencyMs: 250 },
  { inFlight: 2_000, rollouts: 20_000, slices: 3, latencyMs: 1_000 },
]
const chosen = process.argv.slice(2).map(Number)
/**
 * V8 optimises busy code late: after 4 000 rollouts a server still needs a tenth more CPU than after 20 000,
 * and from there on the same.
 */
const warmUp = { inFlight: 64, rollouts: 20_000, latencyMs: 5 }

const rows: Row[] = []

async function measureAll(): Promise<void> {
  const bare = await startWarm('bare')
  const ours = await startWarm('ours')
  const outbox = await startWarm('outbox')
  const asked = rounds.filter(({ inFlight }) => chosen.length === 0 || chosen.includes(inFlight))
  const costs: Costs[][] = []
  for (const round of asked) costs.push(await takeTurns([bare, ours, outbox], round))
  // After all timed parts, because it collects garbage, which a busy server does at other times.
  for (const [n, { inFlight }] of asked.entries()) {
    const [ofBare = none, ofOurs = none, ofOutbox = none] = costs[n] ?? []
    rows.push(
      toRow(
        inFlight,
        { ...summary(ofBare, ofBare), ...(await hold(bare, inFlight)) },
        { ...summary(ofOurs, ofBare), ...(await hold(ours, inFlight)) },
        { ...summary(ofOutbox, ofBare), ...(await hold(outbox, inFlight)) },
      ),
    )
  }
  for (const server of [bare, ours, outbox]) await server.end()
  const growth = chosen.length > 0 ? undefined : await grow()
  printTable(growth)
  console.log(JSON.stringify({ node: process.version, load: loadavg()[0], rows, growth }))
}

/** The cost of some of the rollouts. */
interface Slice {
  /** Of the server, per rollout. Milliseconds. */
  readonly cpu: number
  /** The time that the policy alone needs for a rollout, divided by the measured time. */
  readonly efficiency: number
  /** The largest fraction of a core that one driver used. */
  readonly driver: number
  /** Of the process at its peak so far. MB. */
  readonly rss: number
  /** From the request to the answer that accepts a rollout. Milliseconds. */
  readonly acceptances: readonly number[]
}

/** The cost of rollouts that were sent at once. */
interface Burst {
  /** The time that the policy alone needs for all rollouts, divided by the time until the last has ended. */
  readonly efficiency: number
  /** Of the event loop. Milliseconds. */
  readonly loopP99: number
  readonly acceptances: readonly number[]
}

/** The cost of a round. */
interface Costs {
  readonly slices: readonly Slice[]
  readonly burst: Burst
}

const none: Costs = {
  slices: [],
  burst: { efficiency: Number.NaN, loopP99: Number.NaN, acceptances: [] },
}

/** The cost of a round: medians of its slices, and its burst. */
interface Summary extends Omit<Slice, 'acceptances'> {
  readonly burstEfficiency: number
  readonly burstAcceptP50: number
  readonly loopP99: number
  /** Its CPU time relative to the bare server in the neighbouring slice. */
  readonly ratio: number
  readonly acceptP50: number
  readonly acceptP99: number
}

/** Memory of rollouts that wait for their last answer. KB for each. */
interface Memory {
  /** Live objects and buffers beside its conversation. */
  readonly heap: number
  /** The conversation in the last request. */
  readonly transcript: number
}

type Measured = Summary & Memory

/** One server of each kind serves all rounds. */
async function startWarm(kind: Kind): Promise<MeasuredServer> {
  const server = new MeasuredServer(kind)
  const clusters = await startClusters(2)
  await drive(clusters, await server.listening, { ...warmUp, name: 'warm' })
  for (const cluster of clusters) cluster.end()
  return server
}

/** The cost for each server. */
async function takeTurns(servers: readonly MeasuredServer[], round: Round): Promise<Costs[]> {
  const clusters = await startClusters(Math.min(round.inFlight, 2))
  const slices: Slice[][] = servers.map(() => [])
  for (let slice = 0; slice < round.slices; slice += 1) {
    for (const [n, server] of servers.entries()) {
      slices[n]?.push(await measure(server, clusters, round, `run-${round.inFlight}-${slice}`))
    }
  }
  const costs: Costs[] = []
  for (const [n, server] of servers.entries()) {
    costs.push({ slices: slices[n] ?? [], burst: await measureBurst(server, clusters, round) })
  }
  for (const cluster of clusters) cluster.end()
  return costs
}

async function measure(
  server: MeasuredServer,
  clusters: readonly Cluster[],
  { inFlight, rollouts, latencyMs }: Round,
  name: string,
): Promise<Slice> {
  const before = await server.ask('figures')
  const spreadMs = calls * latencyMs
  const load = { inFlight, rollouts, spreadMs, latencyMs, name }
  const results = await drive(clusters, await server.listening, load)
  const after = await server.ask('figures')
  // Measured neither while rollouts accumulate nor after the last was sent.
  const each = inFlight / clusters.length
  const durations = results.flatMap((result) => result.durations.slice(each, -each))
  return {
    cpu: (after.cpuMs - before.cpuMs) / rollouts,
    efficiency: (calls * latencyMs) / mean(durations),
    driver: Math.max(...results.map((result) => result.cpuMs / result.wallMs)),
    rss: after.peakRss / 1024 / 1024,
    acceptances: results.flatMap((result) => result.acceptances),
  }
}

async function measureBurst(
  server: MeasuredServer,
  clusters: readonly Cluster[],
  { inFlight, rollouts, latencyMs }: Round,
): Promise<Burst> {
  await server.ask('watch')
  const load = { inFlight, rollouts, latencyMs, name: `burst-${inFlight}` }
  const results = await drive(clusters, await server.listening, load)
  const { loopP99Ms } = await server.ask('figures')
  const wallMs = Math.max(...results.map((result) => result.wallMs))
  return {
    efficiency: ((rollouts / inFlight) * calls * latencyMs) / wallMs,
    loopP99: loopP99Ms,
    acceptances: results.flatMap((result) => result.acceptances),
  }
}

function summary({ slices, burst }: Costs, { slices: bare }: Costs): Summary {
  const of = (what: Exclude<keyof Slice, 'acceptances'>): number =>
    median(slices.map((slice) => slice[what]))
  const ratios = slices.map(({ cpu }, n) => cpu / (bare[n]?.cpu ?? Number.NaN))
  const acceptances = slices.flatMap((slice) => slice.acceptances)
  return {
    cpu: of('cpu'),
    ratio: median(ratios),
    efficiency: of('efficiency'),
    driver: of('driver'),
    rss: of('rss'),
    burstEfficiency: burst.efficiency,
    burstAcceptP50: median(burst.acceptances),
    loopP99: burst.loopP99,
    acceptP50: median(acceptances),
    acceptP99: quantile(acceptances, 0.99),
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

interface Round {
  readonly inFlight: number
  readonly rollouts: number
  readonly slices: number
  readonly latencyMs: number
}

async function hold(server: MeasuredServer, inFlight: number): Promise<Memory> {
  const url = await server.listening
  const clusters = await startClusters(Math.min(inFlight, 2))
  // Connections stay open, and do not belong to a rollout.
  const connect = { inFlight, rollouts: inFlight, latencyMs: 5, name: `connect-${inFlight}` }
  await drive(clusters, url, connect)
  await server.ask('collect')
  const before = await server.ask('collect')
  const load = { inFlight, rollouts: inFlight, latencyMs: 5, name: `held-${inFlight}` }
  const held = await Promise.all(
    clusters.map(async (cluster, n) => cluster.hold({ url }, shareOf(load, n, clusters))),
  )
  const bytes = held.reduce((sum, { heldBytes }) => sum + heldBytes, 0)
  await server.ask('collect')
  const during = await server.ask('collect')
  await Promise.all(clusters.map(async (cluster) => cluster.release()))
  for (const cluster of clusters) cluster.end()
  const transcript = bytes / inFlight / 1024
  return { heap: (during.heap - before.heap) / inFlight / 1024 - transcript, transcript }
}

interface Growth {
  readonly rollouts: number
  /** Live objects and buffers. MB. */
  readonly heapBefore: number
  readonly heapAfter: number
}

/** Whether memory stays flat once the maximum number of ended rollouts is remembered. */
async function grow(): Promise<Growth> {
  const server = new MeasuredServer('ours')
  const url = await server.listening
  const clusters = await startClusters(2)
  await drive(clusters, url, { inFlight: 250, rollouts: 12_000, latencyMs: 5, name: 'first' })
  await server.ask('collect')
  const before = await server.ask('collect')
  const rollouts = 20_000
  await drive(clusters, url, { inFlight: 250, rollouts, latencyMs: 5, name: 'more' })
  await server.ask('collect')
  const after = await server.ask('collect')
  for (const cluster of clusters) cluster.end()
  await server.end()
  const toMb = (bytes: number): number => rounded(bytes / 1024 / 1024)
  return { rollouts, heapBefore: toMb(before.heap), heapAfter: toMb(after.heap) }
}

type NamedLoad = Omit<Load, 'url'>

async function drive(
  clusters: readonly Cluster[],
  url: string,
  load: NamedLoad,
): Promise<LoadResult[]> {
  const shares = clusters.map(async (cluster, n) =>
    cluster.drive({ url }, shareOf(load, n, clusters)),
  )
  return Promise.all(shares)
}

/** Each cluster gets an equal share. */
function shareOf(load: NamedLoad, n: number, { length }: readonly Cluster[]): NamedLoad {
  return {
    ...load,
    name: `${load.name}-${n}`,
    inFlight: load.inFlight / length,
    rollouts: load.rollouts / length,
  }
}

async function startClusters(count: number): Promise<Cluster[]> {
  return Promise.all(Array.from({ length: count }, async () => Cluster.start()))
}

class MeasuredServer {
  readonly #process: ChildProcess
  readonly listening: Promise<string>

  constructor(kind: Kind) {
    const file = path.join(import.meta.dirname, 'server-under-test.ts')
    // As in `osmosis serve`.
    const execArgv = ['--expose-gc', '--no-allocation-site-pretenuring']
    this.#process = fork(file, [kind], { execArgv })
    this.#process.once('exit', (code) => {
      if (code !== 0) throw new Error(`the server ended with code ${code}`)
    })
    this.listening = once(this.#process, 'message').then(([port]) => `http://127.0.0.1:${port}`)
  }

  async ask(what: 'collect' | 'watch' | 'figures'): Promise<ServerFigures> {
    this.#process.send(what)
    const [figures] = (await once(this.#process, 'message')) as [ServerFigures]
    return figures
  }

  async end(): Promise<void> {
    this.#process.disconnect()
    await once(this.#process, 'exit')
  }
}

type Row = ReturnType<typeof toRow>

function toRow(inFlight: number, bare: Measured, ours: Measured, outbox: Measured) {
  return {
    inFlight,
    bareCpu: rounded(bare.cpu),
    cpu: rounded(ours.cpu),
    cpuRatio: rounded(ours.ratio),
    bareEfficiency: rounded(bare.efficiency),
    efficiency: rounded(ours.efficiency),
    driver: rounded(ours.driver),
    // For a single rollout it is too small to measure in a process.
    bareHeap: inFlight === 1 ? null : rounded(bare.heap),
    heap: inFlight === 1 ? null : rounded(ours.heap),
    transcript: rounded(ours.transcript),
    rss: rounded(ours.rss),
    bareBurstEfficiency: rounded(bare.burstEfficiency),
    burstEfficiency: rounded(ours.burstEfficiency),
    bareLoopP99: rounded(bare.loopP99),
    loopP99: rounded(ours.loopP99),
    burstAcceptP50: rounded(ours.burstAcceptP50),
    acceptP50: rounded(ours.acceptP50),
    acceptP99: rounded(ours.acceptP99),
    outboxCpu: rounded(outbox.cpu),
    outboxCpuRatio: rounded(outbox.ratio),
    outboxEfficiency: rounded(outbox.efficiency),
    outboxAcceptP50: rounded(outbox.acceptP50),
    outboxAcceptP99: rounded(outbox.acceptP99),
    outboxBurstEfficiency: rounded(outbox.burstEfficiency),
    outboxBurstAcceptP50: rounded(outbox.burstAcceptP50),
  }
}

function printTable(growth: Growth | undefined): void {
  const lines: [string, keyof Row | undefined, string][] = [
    ['CPU per rollout, bare (ms)', 'bareCpu', ''],
    ['CPU per rollout (ms)', 'cpu', ''],
    ['… times bare', 'cpuRatio', '≤ 1.4 from 64, ≤ 2 at 1'],
    ['efficiency, bare', 'bareEfficiency', ''],
    ['efficiency', 'efficiency', '≥ 0.95 at 2,000'],
    ['busiest driver (cores)', 'driver', '< 0.8, or it is the limit'],
    ['accepted, p50 (ms)', 'acceptP50', '≤ 5'],
    ['accepted, p99 (ms)', 'acceptP99', ''],
    ['all sent at once:', undefined, ''],
    ['… efficiency, bare', 'bareBurstEfficiency', ''],
    ['… efficiency', 'burstEfficiency', ''],
    ['… event loop p99, bare (ms)', 'bareLoopP99', ''],
    ['… event loop p99 (ms)', 'loopP99', '≤ 20'],
    ['… accepted, p50 (ms)', 'burstAcceptP50', ''],
    ['memory:', undefined, ''],
    ['… live heap each, bare (KB)', 'bareHeap', ''],
    ['… live heap each (KB)', 'heap', '≤ 40 beside the transcript'],
    ['… transcript (KB)', 'transcript', ''],
    ['… process at its peak (MB)', 'rss', ''],
    ['with an outbox:', undefined, ''],
    ['… CPU per rollout (ms)', 'outboxCpu', ''],
    ['… times bare', 'outboxCpuRatio', ''],
    ['… efficiency', 'outboxEfficiency', ''],
    ['… accepted, p50 (ms)', 'outboxAcceptP50', '≤ 5'],
    ['… accepted, p99 (ms)', 'outboxAcceptP99', ''],
    ['… all at once: efficiency', 'outboxBurstEfficiency', ''],
    ['… all at once: accepted (ms)', 'outboxBurstAcceptP50', ''],
  ]
  const cells = (values: readonly (number | null)[]): string =>
    values.map((value) => String(value ?? '').padStart(8)).join('')
  console.log(`${'in flight'.padEnd(30)}${cells(rows.map(({ inFlight }) => inFlight))}  goal`)
  for (const [name, key, goal] of lines) {
    console.log(
      `${name.padEnd(30)}${cells(rows.map((row) => (key === undefined ? null : row[key])))}  ${goal}`,
    )
  }
  if (growth === undefined) return
  const { heapBefore, heapAfter, rollouts } = growth
  console.log(
    `live heap before and after ${rollouts} rollouts: ${heapBefore} and ${heapAfter} MB, goal: flat`,
  )
}

await measureAll()
process.exit()
