import { styleText } from 'node:util'

import { createTrainer, watchPolicy } from '@osmosis/controller'
import { errorMessage } from '@osmosis/core'
import { formatQuantity } from '@osmosis/eval'

import { closing } from '../../closing.ts'
import { interruptedExitCode } from '../../eval-run/interrupt.ts'
import { writeOutput } from '../output-file.ts'
import { prepareLoop, serveLoop, type PreparedLoop, type ServedLoop } from '../prepare-loop.ts'
import { endRolloutsOnInterrupt } from '../rollout-interrupt.ts'
import { survivingStrayRejections } from '../stray-rejections.ts'
import { chooseModels, type ComparedModel } from './compared-models.ts'
import type { EvalLoopFlags } from './eval-loop-flags.ts'
import { EvaluationProgress } from './evaluation-progress.ts'
import { evaluationReport } from './evaluation-report.ts'
import { loadScorers } from './load-scorers.ts'
import { summarize, type LoopEvaluation, type ModelSummary } from './loop-evaluation.ts'
import { toResultDocument } from './result-document.ts'
import { runLoops, type ReachableModel } from './run-loops.ts'
import type { Scorer } from './scorer.ts'

/** Everything that is decided before the first run. */
interface Setup extends PreparedLoop, Pick<ServedLoop, 'app' | 'server'> {
  readonly models: readonly ReachableModel[]
  readonly scorers: readonly Scorer[]
}

/**
 * Scores the runs of an agent loop, prints a report and resolves with the exit code: 0 when all
 * runs have ended and every scorer has scored at least one of each model, 1 when not, 130 after
 * Ctrl-C.
 */
export async function evalLoopCommand(flags: EvalLoopFlags): Promise<number> {
  return survivingStrayRejections(() => evaluateLoop(flags))
}

async function evaluateLoop(flags: EvalLoopFlags): Promise<number> {
  const environment = process.env // oxlint-disable-line node/no-process-env
  const { primary, baseline } = await chooseModels(flags, environment)
  const scorers = await loadScorers(flags.evalFn ?? [])
  const prepared = await prepareLoop(flags)

  return closing(await startTrainer(primary), async (trainer) =>
    closing(baseline && (await startTrainer(baseline)), async (baselineTrainer) =>
      closing(await serveLoop(prepared.loop, flags), async (served) => {
        const models = [trainer, baselineTrainer ?? []].flat()
        return reportEvaluation({ ...prepared, ...served, models, scorers }, flags)
      }),
    ),
  )
}

async function startTrainer(model: ComparedModel): Promise<ReachableModel & AsyncDisposable> {
  const policy = watchPolicy(model.policy)
  const trainer = await createTrainer({ policy })
  const close = async (): Promise<void> => {
    await trainer.close()
    await model.policy.close?.()
  }
  return { ...model, policy, trainer, [Symbol.asyncDispose]: close }
}

async function reportEvaluation(setup: Setup, flags: EvalLoopFlags): Promise<number> {
  const interrupt = endRolloutsOnInterrupt(setup.app)
  try {
    process.stderr.write(`${headLine(setup, flags)}\n`)
    const evaluation = await evaluate(setup, flags, interrupt.signal)
    const summaries = summarize(evaluation)
    process.stdout.write(`\n${evaluationReport(evaluation, summaries, styleText)}\n`)
    if (flags.output !== undefined) {
      await writeOutput(flags.output, toResultDocument(evaluation, summaries))
    }
    if (interrupt.signal.aborted) return interruptedExitCode
    const allScored = complainOfMissingScores(summaries)
    return allScored && evaluation.stopReason === null ? 0 : 1
  } finally {
    interrupt.release()
  }
}

function headLine({ loop, file, rows, models }: Setup, { n, dataset }: EvalLoopFlags): string {
  const names = models.map(({ name }) => name).join(' against ')
  const runs = `${formatQuantity(rows.length, 'row')} × ${formatQuantity(n, 'run')}`
  return `Evaluating the agent loop ${loop.name} of ${file} with ${names} on ${runs} of ${dataset}`
}

async function evaluate(
  { loop, rows, server, models, scorers }: Setup,
  flags: EvalLoopFlags,
  signal: AbortSignal,
): Promise<LoopEvaluation> {
  const { n, batchSize, passThreshold, dataset, quiet } = flags
  const total = rows.length * n * models.length
  const { onRun } = new EvaluationProgress(total, { runs: !quiet, models: models.length > 1 })
  const started = performance.now()
  const plan = { rows, n, batchSize, models, scorers, server, flags, signal, onRun }
  const runs = await runLoops(plan)
  return {
    loopName: loop.name,
    dataset,
    rowCount: rows.length,
    n,
    passThreshold,
    scorerNames: scorers.map(({ name }) => name),
    models,
    runs,
    durationMs: performance.now() - started,
    // A reason to stop that came when all was done has stopped nothing.
    stopReason: runs.length < total ? stopReasonOf(models, signal) : null,
  }
}

function stopReasonOf(models: readonly ReachableModel[], signal: AbortSignal): string {
  if (signal.aborted) return errorMessage(signal.reason)
  const reasons = models.flatMap(({ tag, policy: { failure } }) => {
    if (failure === null) return []
    return models.length === 1 ? [failure] : [`${tag}: ${failure}`]
  })
  return reasons.join(' ')
}

function complainOfMissingScores(summaries: readonly ModelSummary[]): boolean {
  const missing = summaries.flatMap(({ model, scorers }) =>
    scorers
      .filter(({ metrics }) => metrics.reward.graded === 0)
      .map(({ name }) => `error: ${name} scored no run of ${model.name}.\n`),
  )
  process.stderr.write(missing.join(''))
  return missing.length === 0
}
