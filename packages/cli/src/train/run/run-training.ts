import { rm } from 'node:fs/promises'
import path from 'node:path'

import { isOsmosisError, OsmosisError } from '@osmosis/core'
import { assertRowsFit, createOutputFolder, trainingWriter } from '@osmosis/eval'
import { namedFullDisk } from '@osmosis/protocol/files'
import {
  assertSameTraining,
  servedRollouts,
  train,
  type Learner,
  type LearnerIdentity,
  type StepRecord,
  type TrainOptions,
  type TrainResult,
} from '@osmosis/train'

import { printError, printOut, redaction, standardError } from '../../command/command-context.ts'
import { interruptedExitCode } from '../../command/exit-codes.ts'
import { withContinuation } from '../../command/output/output-files.ts'
import { abortOnInterrupt, survivingStrayRejections } from '../../command/process.ts'
import { printMessage } from '../../command/terminal-text.ts'
import { invalidEntrypoint } from '../../command/wrong-use.ts'
import { evalCompareCommand } from '../../eval/show/compare-command.ts'
import { provenanceOf } from '../../inputs/provenance.ts'
import { findInputs } from '../../inputs/run-inputs.ts'
import { startServerProcess, type ServerProcess } from '../../serve/server-process.ts'
import { archiveTraining, modelFolders, type TrainingPlan } from './training-plan.ts'
import {
  endText,
  evaluationText,
  planText,
  stepText,
  timeLeft,
  TrainingProgress,
  unlimitedCallsText,
  withoutSignalText,
} from './training-text.ts'

/** Lines of a plan. */
export type PlanFacts = readonly (readonly [name: string, text: string])[]

/** A learner for a plan. */
export interface PlannedLearner {
  /** Lines of the plan that need no learner: model, cost. */
  readonly facts: PlanFacts
  /** Why it cannot be opened on this machine, as far as that is known without starting anything. Default: it can. */
  problem?(): Promise<string | undefined>
  /** Finds out whether it can be opened. */
  probe(): Promise<ProbedLearner>
}

/** A learner that can be opened. */
interface ProbedLearner {
  /** Further lines of the plan: device, memory. */
  readonly facts: PlanFacts
  /** What of it must not change during a training, as far as that is known. */
  identity(): Promise<Partial<LearnerIdentity>>
  open(signal: AbortSignal): Promise<OpenedLearner>
}

/** A learner that trains. */
interface OpenedLearner {
  readonly learner: Learner
  /** Rollouts that it answers at once: the others would wait for it while their deadlines run. Default: all. */
  readonly mostRollouts?: number | undefined
  /** Aborted with the reason when it is lost. */
  readonly died: AbortSignal
  /** Gives other programs the figures in the journal. Resolves with warnings. Default: there are none. */
  log?(ended: boolean): Promise<readonly string[]>
  /** What the training has cost so far, for the line of a step. Default: nothing is said. */
  spent?(): string
  /** Lines about what was trained and how to use it, from the folder it was exported to. */
  howToUse(folder: string): readonly string[]
}

/**
 * Trains a policy by a plan, or continues with its training: serves the entrypoint in a process of its own, evaluates
 * the held-out rows, trains, evaluates them again, and compares. Resolves with the exit code: 130 after Ctrl-C.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_dataset`, `invalid_entrypoint`, `learner_error`,
 * `training_drift`, `run_locked`
 */
export async function runTraining(plan: TrainingPlan, planned: PlannedLearner): Promise<number> {
  const { folder } = plan.options
  if (!plan.isDry) assertNotRunning(folder)
  const probed = plan.isDry ? undefined : await planned.probe()
  const say = (text: string): void => {
    if (!plan.isQuiet) printError(`${text}\n`)
  }
  say(planText(plan, [...planned.facts, ...(probed?.facts ?? [])]))
  if (probed === undefined) {
    const problem = await planned.problem?.()
    if (problem !== undefined) say(`warning: this training cannot start here. ${problem}`)
    return 0
  }
  if (plan.isFresh) await archiveTraining(plan)
  const interrupt = abortOnInterrupt()
  try {
    await createOutputFolder(folder)
    const server = await serveEntrypoint(plan, interrupt.signal)
    if (!server.limitsCalls) say(unlimitedCallsText)
    return await survivingStrayRejections(async () => {
      try {
        const inputs = await trainingInputs(plan, server)
        await assertSameTraining({ ...plan.options, ...inputs }, await probed.identity())
        const opened = await probed.open(interrupt.signal)
        return await trainWith(opened, { plan, inputs, server, say }, interrupt.signal)
      } finally {
        await server.close()
      }
    })
  } catch (error) {
    if (!interrupt.signal.aborted) {
      const advice = 'What has ended is stored; free some space.'
      throw withContinuation(await namedFullDisk(error, { folder, advice }), plan.continueWith)
    }
    printError(`Interrupted. The same command continues with the training.\n`)
    return interruptedExitCode
  } finally {
    interrupt.release()
  }
}

/**
 * Before a learner is started beside that of the other process, or its folder is renamed. `train` locks the folder later.
 *
 * @throws OsmosisError with code `run_locked`
 */
function assertNotRunning(folder: string): void {
  const writer = trainingWriter(folder)
  if (writer === null) return
  throw new OsmosisError(
    'run_locked',
    `Process ${writer.pid} on host ${writer.host}, started at ${writer.started_at}, trains in ${folder}. Wait until it has ended, or pass another --name. A process that was killed on another host or in another container is seen here for up to 15 s.`,
  )
}

interface Preparation {
  readonly plan: TrainingPlan
  readonly inputs: TrainingInputs
  readonly server: ServerProcess
  readonly say: (text: string) => void
}

type TrainingInputs = Required<Pick<TrainOptions, 'inputs' | 'provenance'>>

async function serveEntrypoint(
  { subject, options, environment: env, config }: TrainingPlan,
  signal: AbortSignal,
): Promise<ServerProcess> {
  const { entrypoint, folder, workflow: set } = subject
  const concurrency = options.rowsPerStep * options.attempts
  const server = await startServerProcess({ entrypoint, folder, env, concurrency, set }, signal)
  server.logTo(path.join(options.folder, 'server.log'))
  if (server.hasGrader) return server
  await server.close()
  throw invalidEntrypoint(
    `Nothing would reward the rollouts of ${subject.rollout}: export a class that extends Grader from ${config.experiment.entrypoint}.`,
  )
}

/** Resolves with the exit code. */
async function trainWith(
  opened: OpenedLearner,
  { plan, inputs, server, say }: Preparation,
  interrupt: AbortSignal,
): Promise<number> {
  const { learner } = opened
  const { subject, sampling, options } = plan
  const { folder, rowsPerStep, attempts } = options
  const progress = new TrainingProgress(plan.isQuiet ? undefined : standardError())
  const secrets = redaction()
  const steps = options.steps + plan.warmSteps
  const made: StepRecord[] = []
  const log = async (ended = false): Promise<void> => {
    const warnings = (await opened.log?.(ended)) ?? []
    for (const warning of warnings) progress.say(() => say(warning))
  }
  try {
    const result = await train({
      ...options,
      ...inputs,
      learner,
      rollouts: servedRollouts({
        server: { url: server.url, apiKey: server.apiKey },
        kind: server.kind,
        gradesGroups: server.groupMinSize !== null,
        agentTimeoutSeconds: subject.agentTimeoutSeconds,
        graderTimeoutSeconds: subject.graderTimeoutSeconds,
        sampling,
      }),
      maxInFlight:
        plan.maxInFlight ?? Math.min(rowsPerStep * attempts, opened.mostRollouts ?? Infinity),
      redact: (data) => secrets.data(data),
      signal: AbortSignal.any([interrupt, server.died, opened.died]),
      onProgress: (run, update) => progress.update(run, update),
      onWarning: (warning) => progress.say(() => say(warning)),
      onStep: (step) => {
        made.push(step)
        progress.say(() => say(stepText(step, timeLeft(made, steps), opened.spent?.())))
        log().catch(() => {})
      },
      onEvaluation: (evaluation) => {
        progress.say(() => say(evaluationText(evaluation)))
        log().catch(() => {})
      },
    })
    await log(true)
    progress.end()
    if (result.steps.every(({ update }) => update === null)) {
      printOut(withoutSignalText(plan, result))
      return 1
    }
    const last = path.join(folder, modelFolders.last)
    await learner.export(last)
    const { best } = result
    await rm(path.join(folder, modelFolders.best), { recursive: true, force: true })
    if (best !== undefined && best.version !== learner.version) {
      await learner.load(path.join(folder, best.folder))
      await learner.export(path.join(folder, modelFolders.best))
    }
    await printChange(result)
    printOut(endText(plan, result, opened.howToUse(last)))
    return 0
  } finally {
    progress.end()
    await learner.close()
  }
}

/**
 * Compares the evaluations of the held-out rows before and after the training. A training has ended well even when they cannot be
 * compared.
 */
async function printChange({ evaluations, runs }: TrainResult): Promise<void> {
  const [before, after] = [evaluations[0], evaluations.at(-1)]
  printOut('\n')
  if (before === undefined || after === undefined || before === after) return
  try {
    await evalCompareCommand(before.run, after.run, { metric: 'reward', output: runs })
  } catch (error) {
    if (!isOsmosisError(error)) throw error
    printMessage(`warning: The evaluations cannot be compared. ${error.message}`)
  }
}

/**
 * What decides the rollouts of a training, for the manifests of its runs; the loop fills in the model.
 *
 * @throws OsmosisError with code `invalid_dataset` for rows that the entrypoint does not take
 */
async function trainingInputs(
  { subject, sampling, options, heldOutFile }: TrainingPlan,
  { kind, rowCheck }: ServerProcess,
): Promise<TrainingInputs> {
  await assertRowsFit(subject.datasetFile, options.rows, rowCheck)
  await assertRowsFit(heldOutFile, options.heldOut, rowCheck)
  const known = await findInputs(subject, {
    model: { name: '', base_url: null, params: sampling },
    scorers: [],
    files: {},
    maxTurns: null,
    written: path.dirname(options.folder),
  })
  return {
    inputs: { ...known, code: { ...known.code, kind } },
    provenance: await provenanceOf(subject.root, null),
  }
}
