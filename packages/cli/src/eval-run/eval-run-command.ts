import path from 'node:path'
import { styleText } from 'node:util'

import {
  createRunFolder,
  formatReport,
  generateRunName,
  runEvaluation,
  type EvaluationResult,
  type RunFolder,
  type Scorer,
} from '@osmosis/eval'

import { readEnvironment } from '../environment.ts'
import { abortOnInterrupt, interruptedExitCode } from '../interrupt.ts'
import { Redaction } from '../redaction.ts'
import { survivingStrayRejections } from '../stray-rejections.ts'
import { chooseModels, type ComparedModels } from './compared-models.ts'
import type { EvalRunFlags } from './eval-commands.ts'
import { planEvaluation, type EvaluationPlan } from './evaluation-plan.ts'
import { loadScorers } from './load-scorers.ts'
import { ProgressLine } from './progress-line.ts'
import { serveModels, type ServedModels } from './served-models.ts'

/**
 * Runs an evaluation: serves the entrypoint in a process of its own, drives all rows through it over
 * HTTP, scores what comes of them, and prints the report. Resolves with the exit code: 0 when every
 * item has ended and each eval function (without any, the reward) has scored some of each model, 1
 * when not, 130 after Ctrl-C.
 */
export async function evalRunCommand(
  configFile: string | undefined,
  flags: EvalRunFlags,
): Promise<number> {
  const environment = readEnvironment()
  const plan = await planEvaluation(configFile, flags, environment)
  if (plan.platformProblems.length > 0) {
    const lines = plan.platformProblems.map((problem) => `- ${problem}\n`)
    process.stderr.write(
      `warning: The platform would refuse ${configFile ?? ''}:\n${lines.join('')}`,
    )
  }
  const models = await chooseModels(flags, plan.policy, environment)
  const scorers = await loadScorers(flags.evalFn ?? [])
  const redaction = new Redaction([...Object.values(plan.secrets), ...keysOf(models)])
  const { source, outputRoot, rows: _rows, secrets: _secrets, ...inputs } = plan
  const runFolder = await createRunFolder({
    outputRoot,
    runName: flags.name ?? generateRunName(source, { ...inputs, model: models.primary.name }),
  })

  const interrupt = abortOnInterrupt()
  try {
    const served = await orDiscard(runFolder, async () =>
      serveModels(models, {
        plan,
        flags,
        environment,
        redaction,
        logFile: path.join(runFolder.location, 'logs.txt'),
        signal: interrupt.signal,
      }),
    )
    const result = await survivingStrayRejections(async () => {
      try {
        const parts = { served, scorers, runFolder, redaction, interrupt: interrupt.signal }
        return redaction.data(await evaluate(plan, parts))
      } finally {
        await served.close()
      }
    })
    process.stdout.write(`\n${formatReport(result, { style: styleText })}\n`)
    if (interrupt.signal.aborted) return interruptedExitCode
    return complaints(result) === 0 ? 0 : 1
  } catch (error) {
    if (interrupt.signal.aborted && error === interrupt.signal.reason) return interruptedExitCode
    throw error
  } finally {
    interrupt.release()
  }
}

/** The keys of the endpoints that answer. */
function keysOf({ primary, baseline }: ComparedModels): string[] {
  return [primary.apiKey, baseline?.apiKey].filter((key) => key !== undefined)
}

/** What never began leaves no folder behind, so that the name can be used again. */
async function orDiscard<T>(runFolder: RunFolder, begin: () => Promise<T>): Promise<T> {
  try {
    return await begin()
  } catch (error) {
    await runFolder.discard()
    throw error
  }
}

async function evaluate(
  plan: EvaluationPlan,
  parts: {
    readonly served: ServedModels
    readonly scorers: readonly Scorer[]
    readonly runFolder: RunFolder
    readonly redaction: Redaction
    readonly interrupt: AbortSignal
  },
): Promise<EvaluationResult> {
  const { served, scorers, runFolder, redaction, interrupt } = parts
  const { rollout, dataset, rows, n, passThreshold } = plan
  const progress = new ProgressLine(process.stderr, passThreshold, scorers[0]?.name)
  try {
    return await runEvaluation({
      names: { run: path.basename(runFolder.location), rollout, dataset },
      rows,
      model: served.primary,
      ...(served.baseline === undefined ? {} : { baseline: served.baseline }),
      scorers,
      n,
      maxInFlight: served.maxInFlight,
      passThreshold,
      signal: AbortSignal.any([interrupt, served.died]),
      sink: {
        location: runFolder.location,
        record: (record, snapshot) =>
          runFolder.record(redaction.data(record), () => redaction.data(snapshot())),
        finish: (snapshot) => runFolder.finish(redaction.data(snapshot)),
      },
      onProgress: (update) => progress.update(redaction.data(update)),
    })
  } finally {
    progress.end()
  }
}

/** Says on stderr what keeps the exit code from being 0, and counts it. */
function complaints({ incompleteReason, model, baseline }: EvaluationResult): number {
  const models = baseline === null ? [model] : [model, baseline]
  const errors = models.flatMap(({ name, metrics: { scores, reward, completedItems } }) => {
    const missing = Object.entries(scores).filter(([, { graded }]) => graded === 0)
    if (missing.length > 0)
      return missing.map(([score]) => `${score} scored no rollout of ${name}.`)
    const none = Object.keys(scores).length === 0 && reward.graded === 0 && completedItems > 0
    return none ? [`No rollout of ${name} got a reward.`] : []
  })
  if (incompleteReason !== null) errors.push(`The run is incomplete. ${incompleteReason}`)
  for (const error of errors) process.stderr.write(`error: ${error}\n`)
  return errors.length
}
