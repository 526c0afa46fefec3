import path from 'node:path'

import { chances } from '../faults/chance.ts'
import { Program } from '../faults/served-process.ts'
import { tokenAnswer } from '../kit/token-answer.ts'
import { FakeAgentLightning, randomFaults, type FakeModel } from '../kit/trainers/index.ts'
import { plannedRows, type PlannedRow } from './planned-rows.ts'
import { endOf, tooLate, unreachable } from './training-account.ts'
import { worksAs, type WayToBreak, type WorkerSettings } from './worker-settings.ts'

/** What a run is about. */
export interface TrainingRunOptions {
  readonly rollouts: number
  readonly seed: number
  /** Rollouts concurrently. */
  readonly concurrency: number
  /** From 0 to 1: how many requests fail. */
  readonly faultShare: number
  /** How long the gateway is paused, twice. Seconds. */
  readonly pauseSeconds: number
  /** The deadline of a rollout. Seconds. */
  readonly timeoutSeconds: number
  /** How long after that it counts as abandoned. Seconds. */
  readonly abandonedAfterSeconds: number
  /** How long no rollout may end beyond that before those that are left have no end. Seconds. */
  readonly patienceSeconds: number
  readonly breaks: WayToBreak | undefined
}

/** The result of a training run. */
export interface TrainingAccount {
  /** The number of rollouts by their end. */
  readonly ends: ReadonlyMap<string, number>
  /** What happened on the way. */
  readonly incidents: ReadonlyMap<string, number>
  /** What must not have happened, with the rollout. */
  readonly violations: readonly string[]
}

const apiKey = 'key-of-the-run'
/** Tries of a model call. As many errors in a row fail a rollout, and it is run again. */
const triesOfCall = 3

/** Has a worker train on a gateway that fails, pauses and withdraws, and kills it twice. */
export async function trainingRun(options: TrainingRunOptions): Promise<TrainingAccount> {
  const { rollouts, seed, timeoutSeconds, abandonedAfterSeconds } = options
  const rows = plannedRows(rollouts, chances(seed))
  const incidents = new Map<string, number>()
  const note = (what: string, by = 1): void =>
    void incidents.set(what, (incidents.get(what) ?? 0) + by)
  const asked = new Map<string, number>()
  const model: FakeModel = (body, id) => {
    const row = rows[Number(id.split('-')[1])]
    const times = (asked.get(id) ?? 0) + 1
    asked.set(id, times)
    note('model calls')
    if (row?.kind === 'endpoint fails' && times <= triesOfCall) throw new Error('out of memory')
    const answer = tokenAnswer(body, { content: `It is ${times}.` })
    // It is recorded first: what was withdrawn in the middle has had a call.
    if (row?.kind === 'withdrawn') queueMicrotask(() => fake.remove(id))
    return answer
  }
  const fails = randomFaults(options.faultShare, seed)
  const fake = await FakeAgentLightning.start({
    apiKey,
    model,
    faults: (request, n) => {
      const fault = fails(request, n)
      if (fault !== undefined) note(`requests that failed: ${fault}`)
      note('requests')
      return fault
    },
  })
  fake.enqueue(rows.map((input) => ({ input, timeoutSeconds })))
  const worker = workerOf(fake, options, (what) => note(what))
  const killed = new Set<string>()
  try {
    await worker.start()
    for (const part of [0.2, 0.5]) {
      await reached(fake, part * rollouts)
      note('pauses')
      const paused = fake.pause(options.pauseSeconds * 1000, Math.min(5, options.pauseSeconds / 2))
      if (part === 0.5) await paused
      // The first time the worker is killed while it is made to wait, the second time while it works.
      await worker.end('SIGKILL')
      const running = fake.rollouts.filter(({ state }) => state === 'running')
      for (const { id } of running) killed.add(id)
      note('kills of the worker')
      note('rollouts that it was running then', running.length)
      await worker.start()
      await paused
    }
    await ended(fake, timeoutSeconds + abandonedAfterSeconds + options.patienceSeconds)
  } finally {
    await worker.end('SIGTERM')
    await fake.close()
  }
  return judge(fake, rows, killed, incidents)
}

function workerOf(
  { url }: FakeAgentLightning,
  { concurrency, abandonedAfterSeconds, breaks }: TrainingRunOptions,
  onTrouble: (what: string) => void,
): Program {
  const watchSeconds = Math.min(10, abandonedAfterSeconds / 3)
  const settings = { url, apiKey, concurrency, watchSeconds, abandonedAfterSeconds, breaks }
  const script = path.join(import.meta.dirname, 'worker.ts')
  const args = [script, JSON.stringify(settings satisfies WorkerSettings)]
  return new Program({ name: 'worker', args, ready: worksAs, onTrouble })
}

function openIn(fake: FakeAgentLightning): number {
  return fake.rollouts.filter(({ endedAfter }) => endedAfter === undefined).length
}

async function reached(fake: FakeAgentLightning, ends: number): Promise<void> {
  const total = fake.rollouts.length
  await fake.until(() => total - openIn(fake) >= ends)
}

/** Waits until all have ended, or none has for as long as the patience lasts. */
async function ended(fake: FakeAgentLightning, patienceSeconds: number): Promise<void> {
  for (;;) {
    const before = openIn(fake)
    if (before === 0) return
    const progress = fake.until(() => openIn(fake) < before)
    const patience = Promise.withResolvers<'over'>()
    const timer = setTimeout(() => patience.resolve('over'), patienceSeconds * 1000)
    const winner = await Promise.race([progress, patience.promise])
    clearTimeout(timer)
    if (winner === 'over') return
  }
}

function judge(
  fake: FakeAgentLightning,
  rows: readonly PlannedRow[],
  killed: ReadonlySet<string>,
  incidents: ReadonlyMap<string, number>,
): TrainingAccount {
  const calls = Map.groupBy(fake.trained(), ({ rolloutId }) => rolloutId)
  const rollouts = new Map(fake.rollouts.map((rollout) => [rollout.id, rollout]))
  const ends = new Map<string, number>()
  const violations: string[] = []
  for (const [n, row] of rows.entries()) {
    const id = `rollout-${n}`
    try {
      const rollout = rollouts.get(id)
      const isKilled = killed.has(id)
      const end = endOf({ row, rollout, calls: calls.get(id) ?? [], isKilled })
      ends.set(end, (ends.get(end) ?? 0) + 1)
    } catch (error) {
      violations.push(`${id} (${row.kind}): ${(error as Error).message}`)
    }
  }
  for (const end of [tooLate, unreachable]) {
    const count = ends.get(end) ?? 0
    if (count > rows.length * 0.25) violations.push(`more than a quarter is ${end}`)
  }
  for (const [what, count] of incidents) {
    if (what.startsWith('the worker ended')) violations.push(`${what} (${count} times)`)
  }
  return { ends, incidents, violations }
}
