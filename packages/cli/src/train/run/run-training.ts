import { rm } from 'node:fs/promises'
import path from 'node:path'

import { assertRowsFit, createOutputFolder, isTraining, readTrainingJournal } from '@osmosis/eval'
import { settingOptions, type RunInputs, type RunManifest } from '@osmosis/eval/analysis'
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

import { interruptedExitCode, invalidEntrypoint } from '../../command/exit-codes.ts'
import { abortOnInterrupt, survivingStrayRejections } from '../../command/process.ts'
import { withContinuation } from '../../command/output-files.ts'
import { printError, printOut, redaction, standardError } from '../../command/command-context.ts'
import { flagArguments } from '../../eval/run/open-run.ts'
import { startServerProcess, type ServerProcess } from '../../serve/server-process.ts'
import { evalCompareCommand } from '../../eval/show/compare-command.ts'
import { readEnvironment } from '../../command/environment.ts'
import { gitState, packageVersion } from '../../inputs/provenance.ts'
import { digestOf, sourcesIn, withImports } from '../../inputs/source-digest.ts'
import type { EntrypointKind } from '../../child/served-workflow.ts'
import type { TinkerPrices } from '../tinker.ts'
import type { TrainingFlags } from '../training-flags.ts'
import { archiveTraining, modelFolders, planTraining, type TrainingPlan } from './training-plan.ts'
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
type PlanFacts = readonly (readonly [name: string, text: string])[]

/** A learner for a plan, and what is said about it. */
export interface PlannedLearner {
  /** Lines of the plan that need no learner: model, cost. */
  readonly facts: PlanFacts
  /** Finds out whether the learner can be opened. Resolves with further lines of the plan: device, memory. */
  probe?(): Promise<PlanFacts>
  readonly defaultLearningRate: number
  /** What of the learner must not change during a training, as far as that is known before it is opened. Called after `probe`. */
  identity(): Promise<Partial<LearnerIdentity>>
  open(signal: AbortSignal): Promise<Learner>
  /** Rollouts that it answers at once: the others would wait for it while their deadlines run. Called after `open`. Default: all. */
  mostRollouts?(): number | undefined
  /** Aborted with the reason when the learner is lost. Called after `open`. */
  died(): AbortSignal | undefined
  /** Gives other programs the figures in the journal. Resolves with warnings. Default: there are none. */
  log?(ended: boolean): Promise<readonly string[]>
  /** What the training has cost so far, for the line of a step. Default: nothing is said. */
  spent?(): string
  /** Lines about what was trained and how to use it, from the folder it was exported to. */
  howToUse(folder: string): readonly string[]
}

/**
 * Trains a policy by a config, or continues with its training: serves the entrypoint in a process of its own, evaluates
 * the held-out rows, trains, evaluates them again, and compares. Resolves with the exit code: 130 after Ctrl-C.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_dataset`, `invalid_entrypoint`, `learner_error`,
 * `training_drift`, `run_locked`
 */
export async function runTraining(
  kind: 'local' | 'tinker',
  configFile: string,
  flags: TrainingFlags,
  planLearner: (plan: TrainingPlan) => PlannedLearner,
): Promise<number> {
  const environment = readEnvironment()
  const plan = await planTraining(configFile, flags, environment)
  const planned = planLearner(plan)
  const probed = flags.dryRun === true ? [] : await planned.probe?.()
  const say = (text: string): void => {
    if (!flags.quiet) printError(`${text}\n`)
  }
  say(planText(plan, [...planned.facts, ...(probed ?? []), ...resumeFacts(plan, flags)]))
  if (flags.dryRun) return 0
  if (flags.fresh) await archiveTraining(plan)
  const interrupt = abortOnInterrupt()
  try {
    await createOutputFolder(plan.folder)
    const server = await serveEntrypoint(plan, environment, interrupt.signal)
    if (!server.limitsCalls) say(unlimitedCallsText)
    const result = await survivingStrayRejections(async () => {
      try {
        return await withLearner({ plan, flags, planned, server, say }, interrupt.signal)
      } finally {
        await server.close()
      }
    })
    return await conclude(plan, result, planned)
  } catch (error) {
    if (!interrupt.signal.aborted) {
      const advice = 'What has ended is stored; free some space.'
      const named = await namedFullDisk(error, { folder: plan.folder, advice })
      throw withContinuation(named, ['train', kind, configFile, ...continuing(flags)])
    }
    printError(`Interrupted. The same command continues with the training.\n`)
    return interruptedExitCode
  } finally {
    interrupt.release()
  }
}

/** Defaults of flags, which need not be repeated. */
const usual: Readonly<Record<string, unknown>> = {
  device: 'auto',
  sampler: 'auto',
  export: 'adapter',
  lossReduction: 'sum',
  dialect: 'tinker',
}

/** The flags of a command that continues the training. */
function continuing(
  flags: TrainingFlags & { readonly prices?: TinkerPrices | undefined },
): string[] {
  const { prices, ...repeated } = flags
  return [
    ...Object.entries(repeated).flatMap(([flag, value]) =>
      flag === 'fresh' || usual[flag] === value ? [] : flagArguments(flag, value),
    ),
    ...(prices === undefined ? [] : ['--prices', Object.values(prices).join(',')]),
  ]
}

/** Says that a training continues. */
function resumeFacts(
  { folder, steps, warmSteps }: TrainingPlan,
  { fresh }: TrainingFlags,
): PlanFacts {
  if (fresh === true || !isTraining(folder)) return []
  const done = readTrainingJournal(folder).filter(({ kind }) => kind === 'step').length
  return [['Resumes', `after ${done} of ${steps + warmSteps} steps; --fresh starts a new training`]]
}

interface Preparation {
  readonly plan: TrainingPlan
  readonly flags: TrainingFlags
  readonly planned: PlannedLearner
  readonly server: ServerProcess
  readonly say: (text: string) => void
}

async function serveEntrypoint(
  plan: TrainingPlan,
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<ServerProcess> {
  const { experiment, env } = plan.config
  const server = await startServerProcess(
    {
      entrypoint: experiment.entrypointFile,
      folder: experiment.rolloutFolder,
      env: {
        ...environment,
        ...env,
        ...plan.secrets,
        _OSMOSIS_ROLLOUT_ARTIFACT_ROOT: path.join(plan.folder, 'artifacts'),
      },
      concurrency: plan.rowsPerStep * plan.attempts,
      set: plan.config.workflow,
    },
    signal,
  )
  server.logTo(path.join(plan.folder, 'server.log'))
  if (server.hasGrader) return server
  await server.close()
  throw invalidEntrypoint(
    `Nothing would reward the rollouts of ${experiment.rollout}: export a class that extends Grader from ${experiment.entrypoint}.`,
  )
}

async function withLearner(
  { plan, flags, planned, server, say }: Preparation,
  interrupt: AbortSignal,
): Promise<TrainResult> {
  const { datasetFile } = plan.config.experiment
  await assertRowsFit(datasetFile, plan.rows, server.rowCheck)
  await assertRowsFit(flags.heldOut ?? datasetFile, plan.heldOut, server.rowCheck)
  const { config, rowsPerStep, attempts, warmSteps } = plan
  const settings = settingOptions(config.training)
  const same = {
    folder: plan.folder,
    rows: plan.rows,
    heldOut: plan.heldOut,
    rowsPerStep,
    ...settings.training,
    seed: flags.seed ?? 0,
    ...(await trainingInputs(plan, server.kind)),
  } satisfies Partial<TrainOptions>
  await assertSameTraining(same, await planned.identity())
  const learner = await planned.open(interrupt)
  const signals = [interrupt, server.died, planned.died()].filter((one) => one !== undefined)
  const progress = new TrainingProgress(flags.quiet ? undefined : standardError())
  const { max_tokens: longestAnswer } = plan.sampling
  const { warmStart } = flags
  const secrets = redaction()
  const steps = plan.steps + warmSteps
  const made: StepRecord[] = []
  const log = async (ended = false): Promise<void> => {
    const warnings = (await planned.log?.(ended)) ?? []
    for (const warning of warnings) progress.say(() => say(warning))
  }
  try {
    const result = await train({
      ...same,
      learner,
      rollouts: servedRollouts({
        server: { url: server.url, apiKey: server.apiKey },
        kind: server.kind,
        gradesGroups: server.groupMinSize !== null,
        agentTimeoutSeconds: config.training.agent_workflow_timeout_s ?? null,
        graderTimeoutSeconds: config.training.grader_timeout_s ?? null,
        sampling: plan.sampling,
      }),
      steps: plan.steps,
      attempts,
      maxInFlight:
        flags.maxInFlight ?? Math.min(rowsPerStep * attempts, planned.mostRollouts?.() ?? Infinity),
      evaluateEvery: config.checkpoints.eval_interval ?? 0,
      checkpointEvery: config.checkpoints.checkpoint_save_freq ?? 1,
      update: {
        ...settings.update,
        ...(longestAnswer !== undefined && { longestAnswer }),
        learningRate: flags.lr ?? config.training.lr ?? planned.defaultLearningRate,
      },
      ...(warmStart !== undefined && {
        warmStart: { threshold: warmStart, steps: warmSteps },
      }),
      stopWhen: {
        ...settings.stopWhen,
        ...(flags.withoutSignal !== undefined && { withoutSignal: flags.withoutSignal }),
      },
      names: { rollout: config.experiment.rollout, dataset: config.experiment.dataset },
      redact: (data) => secrets.data(data),
      signal: AbortSignal.any(signals),
      onProgress: (run, update) => progress.update(run, update),
      onWarning: (warning) => progress.say(() => say(warning)),
      onStep: (step) => {
        made.push(step)
        progress.say(() => say(stepText(step, timeLeft(made, steps), planned.spent?.())))
        log().catch(() => {})
      },
      onEvaluation: (evaluation) => {
        progress.say(() => say(evaluationText(evaluation)))
        log().catch(() => {})
      },
    })
    await log(true)
    if (!hasLearned(result)) return result
    await learner.export(path.join(plan.folder, modelFolders.last))
    const { best } = result
    await rm(path.join(plan.folder, modelFolders.best), { recursive: true, force: true })
    if (best !== undefined && best.version !== learner.version) {
      await learner.load(path.join(plan.folder, best.folder))
      await learner.export(path.join(plan.folder, modelFolders.best))
    }
    return result
  } finally {
    progress.end()
    await learner.close()
  }
}

/** What decides the rollouts of a training, for the manifests of its runs; the loop fills in the model. */
async function trainingInputs(
  { config, sampling, secrets, folder }: TrainingPlan,
  kind: EntrypointKind,
): Promise<{ readonly inputs: RunInputs; readonly provenance: RunManifest['provenance'] }> {
  const { experiment, training, workspaceRoot, workflow, env } = config
  const sources = await sourcesIn(experiment.rolloutFolder, new Set([path.dirname(folder)]))
  return {
    inputs: {
      model: { name: '', base_url: null, params: sampling },
      dataset: { name: experiment.dataset, sha256: await digestOf([experiment.datasetFile]) },
      code: {
        rollout: experiment.rollout,
        kind,
        entrypoint: path.relative(workspaceRoot, experiment.entrypointFile),
        sha256: await digestOf(await withImports(sources)),
        scorers: [],
      },
      ...(Object.keys(workflow).length === 0 ? {} : { workflow }),
      env,
      secrets: Object.keys(secrets).toSorted(),
      timeouts: {
        agent_seconds: training.agent_workflow_timeout_s ?? null,
        grader_seconds: training.grader_timeout_s ?? null,
        max_turns: null,
      },
    },
    provenance: {
      sdk_version: packageVersion(),
      node_version: process.version,
      config: null,
      root: workspaceRoot,
      git: await gitState(workspaceRoot),
    },
  }
}

function hasLearned({ steps }: TrainResult): boolean {
  return steps.some(({ update }) => update !== null)
}

async function conclude(
  plan: TrainingPlan,
  result: TrainResult,
  planned: PlannedLearner,
): Promise<number> {
  if (!hasLearned(result)) {
    printOut(withoutSignalText(plan, result))
    return 1
  }
  const [before, after] = [result.evaluations[0], result.evaluations.at(-1)]
  printOut('\n')
  if (before !== undefined && after !== undefined && before !== after) {
    await evalCompareCommand(before.run, after.run, { metric: 'reward', output: result.runs })
  }
  printOut(endText(plan, result, planned.howToUse(path.join(plan.folder, modelFolders.last))))
  return 0
}
