// The process whose time and memory eval-engine.ts measures: one evaluation.
import { setFlagsFromString } from 'node:v8'

import {
  createRun,
  runEvaluation,
  toRunRow,
  type DatasetRow,
  type EvaluationStore,
  type ItemRunner,
  type RunSnapshots,
  type RunStore,
} from '@osmosis/eval'

import { itemOf } from '../packages/eval/test/store/runs.ts'
import { madeManifest } from '../test/kit/made-runs.ts'

/** What is to be measured. */
export interface EngineTask {
  readonly items: number
  readonly inFlight: number
  readonly store: boolean
  readonly folder: string
}

/** The measured figures. */
export interface EngineFigures {
  readonly seconds: number
  readonly cpuSeconds: number
  /** As the system sees the process. */
  readonly peakMiB: number
  /** After garbage collection, with the result still referenced. */
  readonly liveMiB: number
  /** Of the evaluation's time. */
  readonly refreshSeconds: number
  readonly finalSeconds: number
}

// As `osmosis eval run` does.
setFlagsFromString('--semi-space-growth-factor=1')

const attempts = 4
const text = 'I look for flights, and compare what they cost. '.repeat(130)

const task = JSON.parse(process.argv[2] ?? '{}') as EngineTask

async function figuresOf({ items, inFlight, store, folder }: EngineTask): Promise<EngineFigures> {
  const rows = Array.from({ length: items / attempts }, (_, index): DatasetRow => ({
    sourceRowIndex: index,
    initialMessages: [{ role: 'user', content: `${index}` }],
    label: String(index),
    metadata: null,
    otherColumns: {},
  }))
  const name = `r-${items}-${inFlight}`
  const manifest = madeManifest({ run_name: name, n: attempts, rows: rows.map(toRunRow) })
  const run = store ? await createRun({ outputRoot: folder, manifest }) : undefined
  const timed = run && new TimedStore(run)
  const before = process.cpuUsage()
  const startedAt = performance.now()
  const result = await runEvaluation({
    names: { run: name, rollout: 'r', dataset: 'd' },
    rows,
    n: attempts,
    model: { name: 'm', runner: instant },
    maxInFlight: inFlight,
    ...(timed && { store: timed }),
  })
  const seconds = (performance.now() - startedAt) / 1000
  const { user, system } = process.cpuUsage(before)
  const peakMiB = Math.round(process.resourceUsage().maxRSS / 1024)
  globalThis.gc?.()
  const liveMiB = Math.round(process.memoryUsage().heapUsed / 2 ** 20)
  if (result.items.length !== items) throw new Error(`${result.items.length} of ${items} ended`)
  await run?.close()
  return {
    seconds,
    cpuSeconds: (user + system) / 1e6,
    peakMiB,
    liveMiB,
    refreshSeconds: (timed?.refreshMs ?? 0) / 1000,
    finalSeconds: (timed?.finalMs ?? 0) / 1000,
  }
}

/** Ends each item at once, with a conversation and grader input of a realistic size. */
const instant: ItemRunner = {
  async run({ rolloutId, row, runIndex }, { onEnd }) {
    const { trajectories, graded } = itemOf(row.sourceRowIndex, runIndex, text)
    const outcome = {
      status: 'success' as const,
      reward: (row.sourceRowIndex * 7 + runIndex * 3) % 4 === 0 ? 1 : 0,
      sampleRewards: { main: 1 },
      samples: [],
      usage: { promptTokens: 10, completionTokens: 5, totalTokens: 15 },
      durationMs: 12.5,
      errorType: null,
      errorMessage: null,
      record: {
        trajectories,
        graded,
        metrics: { length: rolloutId.length },
        gradingMs: 1,
        trouble: null,
      },
    }
    // Like a rollout in another process, it never ends in the same turn of the event loop.
    await new Promise(setImmediate)
    await onEnd?.(outcome)
    return outcome
  },
}

/** Measures how long snapshots take, from the first figure to the file. */
class TimedStore implements EvaluationStore {
  refreshMs = 0
  finalMs = 0
  readonly #store: RunStore

  constructor(store: RunStore) {
    this.#store = store
  }

  get location(): string {
    return this.#store.location
  }

  get manifest(): RunStore['manifest'] {
    return this.#store.manifest
  }

  get events(): RunStore['events'] {
    return this.#store.events
  }

  commit(item: Parameters<RunStore['commit']>[0]): ReturnType<RunStore['commit']> {
    return this.#store.commit(item)
  }

  async refreshSnapshots(texts: () => RunSnapshots): Promise<void> {
    let startedAt: number | undefined
    await this.#store.refreshSnapshots(() => {
      startedAt = performance.now()
      return texts()
    })
    if (startedAt !== undefined) this.refreshMs += performance.now() - startedAt
  }

  async writeSnapshots(texts: () => RunSnapshots): Promise<void> {
    const startedAt = performance.now()
    await this.#store.writeSnapshots(texts)
    this.finalMs += performance.now() - startedAt
  }
}

process.send?.(await figuresOf(task))
process.disconnect?.()
