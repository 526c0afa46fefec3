import type { ServerAddress, Trainer, WatchedPolicy } from '@osmosis/controller'
import { runWorkerPool, type DatasetRow } from '@osmosis/eval'

import type { LoopFlags } from '../loop-flags.ts'
import { runRow } from '../row-runner.ts'
import type { ComparedModel } from './compared-models.ts'
import type { EvaluatedRun } from './evaluated-run.ts'
import type { Scorer } from './scorer.ts'
import { scoreRun } from './score-run.ts'

/** A model, and the trainer that asks it. */
export interface ReachableModel extends ComparedModel {
  readonly policy: WatchedPolicy
  readonly trainer: Trainer
}

/** What is to be run, and how. */
export interface LoopPlan {
  readonly rows: readonly DatasetRow[]
  /** Runs of each row by each model. */
  readonly n: number
  /** Most runs at the same time. */
  readonly batchSize: number
  readonly models: readonly ReachableModel[]
  readonly scorers: readonly Scorer[]
  /** Where the loop is served. */
  readonly server: ServerAddress
  readonly flags: Pick<LoopFlags, 'maxTurns' | 'maxTokens' | 'temperature'>
  /** Starts nothing more, and leaves what runs out of the results. */
  readonly signal: AbortSignal
  /** Hears of each run as it ends. */
  readonly onRun: (run: EvaluatedRun) => void
}

/** One run that is to be made, and its place in the results. */
interface PlannedRun {
  readonly place: number
  readonly row: DatasetRow
  readonly runIndex: number
  readonly model: ReachableModel
}

/**
 * Runs and scores all rows, and resolves with the runs by row, run and model, whatever order they
 * end in. Stops starting runs when a policy can answer none.
 */
export async function runLoops(plan: LoopPlan): Promise<EvaluatedRun[]> {
  const { rows, n, batchSize, models, signal } = plan
  const runs: (EvaluatedRun | undefined)[] = []
  const interrupted = new Promise<undefined>((resolve) => {
    signal.addEventListener('abort', () => resolve(undefined), { once: true })
  })
  await runWorkerPool(
    plannedRuns(plan),
    async (planned) => {
      // An eval function may not end, or not soon.
      const run = await Promise.race([evaluate(planned, plan), interrupted])
      if (run === undefined) return
      runs[planned.place] = run
      plan.onRun(run)
    },
    {
      size: Math.min(batchSize, rows.length * n * models.length),
      halted: () => signal.aborted || models.some(({ policy }) => policy.failure !== null),
    },
  )
  return runs.filter((run) => run !== undefined)
}

function* plannedRuns({ rows, n, models }: LoopPlan): Generator<PlannedRun, void> {
  let place = 0
  for (const row of rows) {
    for (let runIndex = 0; runIndex < n; runIndex++) {
      for (const model of models) yield { place: place++, row, runIndex, model }
    }
  }
}

async function evaluate(
  { row, runIndex, model }: PlannedRun,
  { server, flags, models, scorers, signal }: LoopPlan,
): Promise<EvaluatedRun> {
  const { trainer, tag } = model
  const attempt = models.length === 1 ? `run-${runIndex}` : `run-${runIndex}-${tag}`
  const hooks = { signal }
  const parts = { server, trainer, flags, executionMode: 'eval', attempt, hooks } as const
  const result = await runRow(row, parts)
  return { row, runIndex, model, result, scores: await scoreRun(scorers, row, result) }
}
