import path from 'node:path'
import { createInterface } from 'node:readline/promises'

import { errorMessage } from '@osmosis/core'
import {
  createOutputFolder,
  metricsDocument,
  reserveRun,
  runEvaluation,
  type EvaluationResult,
  type RunStore,
  type Scorer,
} from '@osmosis/eval'
import { formatCount } from '@osmosis/eval/analysis'
import type { FolderLock } from '@osmosis/protocol/files'

import {
  answerTo,
  printError,
  printJson,
  printOut,
  redaction,
  standardError,
  isInteractive,
  resolvePath,
  standardInput,
} from '../../command/command-context.ts'
import { completeEnvironment } from '../../command/environment.ts'
import { interruptedExitCode } from '../../command/exit-codes.ts'
import { assertOutputFile, withContinuation } from '../../command/output/output-files.ts'
import { withCommand } from '../../command/output/shown-command.ts'
import {
  abortOnInterrupt,
  closing,
  survivingStrayRejections,
  disablePretenuring,
  keepYoungGenerationSmall,
} from '../../command/process.ts'
import { outputWidth, printMessage } from '../../command/terminal-text.ts'
import { invalid } from '../../command/wrong-use.ts'
import {
  openPolicy,
  policyChoice,
  type ChosenPolicy,
  type PolicyChoice,
} from '../../inputs/choose-policy.ts'
import { moduleFile, splitSpec } from '../../inputs/load-module.ts'
import { digestParts, findInputs, type KnownInputs } from '../../inputs/run-inputs.ts'
import { junitLines, testCases } from '../export/junit-report.ts'
import { writeTexts } from '../export/write-texts.ts'
import { preflightModel } from '../models/model-endpoint.ts'
import type { EvalRunFlags } from '../run.ts'
import { runReport } from '../show/run-report.ts'
import { runSummary } from '../show/run-summary.ts'
import { endedRun } from '../show/shown-run.ts'
import {
  chooseRun,
  pendingRows,
  renamedRun,
  unmatchedRetry,
  withGroups,
  type ChosenRun,
} from './choose-run.ts'
import { planEvaluation, type EvalRunPlan } from './evaluation-plan.ts'
import { loadScorers } from './load-scorers.ts'
import { beginRun, openEarlierRun, resumeArguments } from './open-run.ts'
import {
  exitCodeOf,
  outcomeLine,
  planText,
  ProgressLine,
  runAgainText,
  servedText,
} from './run-output.ts'
import { serveModel, type ServedModel } from './served-model.ts'

/** For a command that makes several runs. */
export interface RunHooks {
  /** Called with the folder of the run, once it exists. */
  readonly opened?: (location: string) => void
  /** Whether the result is not printed. Default: it is. */
  readonly isSilent?: boolean
  /** Evaluated instead of the model that the flags name. */
  readonly checkpoint?: ChosenPolicy | undefined
}

/** A run with everything that it needs. */
interface Preparation {
  readonly configFile: string | undefined
  /** The arguments of `osmosis` that resume the run. */
  readonly resumeWith: readonly string[]
  readonly plan: EvalRunPlan
  readonly flags: EvalRunFlags
  readonly model: ChosenPolicy
  readonly scorers: readonly Scorer[]
  readonly inputs: KnownInputs
  /** Of each part of the code. */
  readonly digests: Readonly<Record<string, string>>
  readonly run: ChosenRun
  readonly hooks: RunHooks
  /** Prints a line on stderr, unless the command is quiet. */
  readonly say: (text: string) => void
}

/**
 * Starts or resumes an evaluation: serves the entrypoint in a child process, sends all rows to it over
 * HTTP, scores the outcomes and prints the result. Resolves with the exit code: 0 when every item has
 * ended and each eval function (without any, the reward) has scored a rollout, 1 when not, 3 when the pass
 * rate is below `--min-pass-rate`, 130 after Ctrl-C.
 *
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint` or `invalid_dataset` for invalid
 * input, `run_locked` when another process writes to the run, `damaged_run`, `storage_error`
 */
export async function evaluateOnce(
  configFile: string | undefined,
  flags: EvalRunFlags,
  hooks: RunHooks = {},
): Promise<number> {
  keepYoungGenerationSmall()
  disablePretenuring()
  assertFlagsFit(flags)
  const environment = completeEnvironment()
  const plan = await planEvaluation(configFile, flags, environment)
  if (plan.platformProblems.length > 0) {
    const lines = plan.platformProblems.map((problem) => `\n- ${problem}`)
    printMessage(`warning: The platform would refuse ${configFile ?? ''}:${lines.join('')}`)
  }
  const opened =
    hooks.checkpoint ?? (await openPolicy(policyChoice(flags, plan.policy), environment))
  return closing(opened, async (model) => {
    const prepared = { ...(await prepare(configFile, flags, { plan, model })), hooks }
    const interrupt = abortOnInterrupt()
    try {
      return await start(prepared, interrupt.signal)
    } catch (error) {
      if (interrupt.signal.aborted && error === interrupt.signal.reason) return interruptedExitCode
      throw error
    } finally {
      interrupt.release()
    }
  })
}

/** @throws OsmosisError with code `invalid_config` for flags of which one forbids the other */
function assertFlagsFit(flags: EvalRunFlags): void {
  if (flags.fresh && flags.retryFailed !== undefined) {
    throw invalid('Pass either --fresh or --retry-failed: a new run has no failures.')
  }
  if (flags.quiet && flags.details) {
    throw invalid('Pass either --quiet or --details: a quiet command prints one line.')
  }
  if (flags.junit === '-') {
    throw invalid(
      '--junit must name a file. osmosis eval export <run> --junit - prints the results.',
    )
  }
}

async function prepare(
  configFile: string | undefined,
  flags: EvalRunFlags,
  { plan, model }: Pick<Preparation, 'plan' | 'model'>,
): Promise<Omit<Preparation, 'hooks'>> {
  const scorers = await loadScorers(flags.evalFn ?? [])
  const { queue, server, env, secrets } = plan
  const elsewhere = server
    ? 'a running server, which has its own variables'
    : queue && 'the workers of a queue, which have their own variables'
  if (elsewhere !== undefined && Object.keys({ ...env, ...secrets }).length > 0) {
    printMessage(`warning: [env] and [secrets] of the config do not reach ${elsewhere}.`)
  }
  const { choice } = model
  const code = {
    files: {
      ...(choice.kind === 'module' && { 'policy module': [choice.file] }),
      ...(flags.evalFn && {
        'eval functions': flags.evalFn.map((spec) =>
          moduleFile('eval function', splitSpec(spec).file),
        ),
      }),
    },
    written: resolvePath(plan.outputRoot),
  }
  const inputs = await findInputs(plan, {
    model: { name: model.name, base_url: addressOf(choice), params: plan.params },
    scorers: scorers.map(({ name }) => name),
    maxTurns: plan.maxTurns,
    ...code,
  })
  const run = await chooseRun({ plan, flags, inputs })
  const unmatched = unmatchedRetry(run, flags)
  if (unmatched !== undefined) printMessage(`warning: ${unmatched}`)
  const say = (text: string): void => {
    if (!flags.quiet) printError(`${text}\n`)
  }
  const resumeWith = resumeArguments(configFile, flags, run.name)
  const digests = await digestParts(plan, code)
  return { configFile, resumeWith, plan, flags, model, scorers, inputs, digests, run, say }
}

/** The address of an endpoint, without user info; null for a module and for a provider. */
function addressOf(choice: PolicyChoice): string | null {
  if (choice.kind !== 'endpoint') return null
  const { origin, pathname } = new URL(choice.baseUrl)
  return `${origin}${pathname.replace(/\/+$/, '')}`
}

async function start(initial: Preparation, interrupt: AbortSignal): Promise<number> {
  const { plan, flags, model, say, hooks } = initial
  say(planText(plan, initial.run, model.name, flags.dryRun ? 'Would start' : 'Starting'))
  const pending = pendingRows(initial.run).length
  if (flags.dryRun) {
    const served = await serveModel(model, plan, initial.run, interrupt)
    say(servedText(served))
    await served.close()
    return 0
  }
  await assertOutputFile(flags.junit, { flag: '--junit', name: 'junit.xml' })
  if (!(await confirmStart(pending, flags, interrupt))) return 1
  await makeOutputRoot(plan)
  const { prepared, lock } = await withReservedName(initial).catch((error: unknown) => {
    throw withContinuation(error, initial.resumeWith)
  })
  const { run } = prepared
  // A stored run is opened before the server starts; a new one is created when the server listens.
  const earlier = run.earlier && (await openEarlierRun(run, plan))
  let store = earlier
  try {
    if (earlier !== undefined) hooks.opened?.(earlier.location)
    if (earlier !== undefined && pending === 0) {
      return await conclude(
        prepared,
        earlier,
        await evaluate(prepared, { store: earlier }),
        interrupt,
      )
    }
    await preflightModel(model, say, interrupt)
    const served = await serveModel(model, plan, run, interrupt)
    const result = await survivingStrayRejections(async () => {
      try {
        const { inputs, digests, resumeWith } = prepared
        const { kind } = served
        store ??= await beginRun(run, { plan, inputs, digests, kind, resumeWith, lock })
        hooks.opened?.(store.location)
        served.logTo(path.join(store.location, 'logs.txt'))
        say(servedText(served))
        const whole = served.gradesGroups ? withGroups(run) : run
        const more = pendingRows(whole).length - pending
        if (more > 0) say(runAgainText(more))
        const ended = await evaluate({ ...prepared, run: whole }, { store, served, interrupt })
        const advice = await served.advise()
        if (advice !== undefined) say(advice)
        return ended
      } finally {
        await served.close()
      }
    })
    return store === undefined ? 1 : await conclude(prepared, store, result, interrupt)
  } catch (error) {
    throw withContinuation(error, prepared.resumeWith)
  } finally {
    if (store === undefined) await lock?.release()
    await store?.close()
  }
}

/** Reserves the generated name of a run. Another process may have taken it in the meantime. */
async function withReservedName(
  prepared: Preparation,
): Promise<{ readonly prepared: Preparation; readonly lock: FolderLock | undefined }> {
  const { plan, flags, run, configFile, say } = prepared
  if (run.earlier !== undefined || flags.name !== undefined) return { prepared, lock: undefined }
  const { name, lock } = await reserveRun(plan.outputRoot, plan.source)
  if (name === run.name) return { prepared, lock }
  say(`Another run has taken the name ${run.name}: this run is ${name}.`)
  const resumeWith = resumeArguments(configFile, flags, name)
  return { prepared: { ...prepared, resumeWith, run: renamedRun(run, name) }, lock }
}

async function makeOutputRoot({ outputRoot }: EvalRunPlan): Promise<void> {
  try {
    await createOutputFolder(outputRoot)
  } catch (cause) {
    throw invalid(`Cannot create the folder ${outputRoot}: ${errorMessage(cause)}`, cause)
  }
}

/** Runs the pending items; without `served` there are none. */
async function evaluate(
  prepared: Preparation,
  parts: {
    readonly store: RunStore
    readonly served?: ServedModel
    readonly interrupt?: AbortSignal
  },
): Promise<EvaluationResult> {
  const { plan, flags, model, scorers } = prepared
  const { runsAgain } = prepared.run
  const { store, served, interrupt } = parts
  const { manifest } = store
  const idle = { run: () => Promise.reject(new Error('nothing is served')) }
  const output = flags.quiet || served === undefined ? undefined : standardError()
  const progress = new ProgressLine(output, {
    passThreshold: plan.passThreshold,
    scoreNames: scorers.map(({ name }) => name),
    earlier: [...store.events.values()].filter((event) => !runsAgain(event)),
  })
  const secrets = redaction()
  served?.onWait((pauseMs, status) => progress.wait(pauseMs, status))
  const signals = [interrupt, served?.died].filter((signal) => signal !== undefined)
  try {
    return await runEvaluation({
      names: { run: manifest.run_name, rollout: plan.rollout, dataset: plan.dataset },
      rows: manifest.rows.flatMap(({ source_row: row }) => plan.allRows[row] ?? []),
      model: served?.model ?? { name: model.name, runner: idle },
      scorers,
      needsReward: scorers.length === 0 && (served?.hasGrader ?? true),
      n: manifest.n,
      maxInFlight: served?.inFlight.limit ?? 1,
      gradesGroups: served?.gradesGroups ?? false,
      passThreshold: plan.passThreshold,
      maxCostUsd: flags.maxCost,
      failOnError: flags.failOnError === 'never' ? false : flags.failOnError,
      failureAdvice: {
        raise: ' with --retry-failed, or raise --fail-on-error to continue',
        continue: ' with --retry-failed, or pass --fail-on-error never to continue',
      },
      signal: AbortSignal.any(signals),
      store,
      runAgain: runsAgain,
      redact: (data) => secrets.data(data),
      onProgress: (update) => progress.update(update),
    })
  } finally {
    progress.end()
  }
}

async function conclude(
  { flags, resumeWith, hooks }: Preparation,
  store: RunStore,
  result: EvaluationResult,
  interrupt: AbortSignal,
): Promise<number> {
  const { isSilent = false } = hooks
  const isReported = !isSilent && flags.json !== true && flags.quiet !== true
  // A large run is not held in a second form without need.
  const run =
    isReported || flags.junit !== undefined ? await endedRun(store, resumeWith) : undefined
  if (isSilent) {
    // The command prints all of its runs at the end.
  } else if (flags.json) {
    const document = { ...metricsDocument(result, store), location: store.location }
    printJson(document)
  } else if (flags.quiet) printOut(`${outcomeLine(result)}\n`)
  else if (isReported && run !== undefined) {
    const width = outputWidth()
    const text = flags.details ? runReport(run, width) : runSummary(run, { width, showPlan: false })
    printOut(`\n${text}\n`)
  }
  if (run !== undefined && flags.junit !== undefined) {
    await writeTexts(flags.junit, junitLines(run.shown, testCases(run.shown)))
  }

  const code = exitCodeOf(result, flags)
  // The summary and the report print this command themselves.
  if ((flags.json || flags.quiet) && result.status === 'incomplete')
    printError(`${withCommand('Continue:', resumeWith).join('\n')}\n`)
  return interrupt.aborted ? interruptedExitCode : code
}

/** From this number of rollouts on, the command asks for confirmation. */
const manyRollouts = 1000

/** Asks the user before many rollouts start; true without a terminal. */
async function confirmStart(
  pending: number,
  { yes, json }: EvalRunFlags,
  signal: AbortSignal,
): Promise<boolean> {
  if (yes || json || pending < manyRollouts) return true
  if (!isInteractive()) return true
  const lines = createInterface({ input: standardInput(), output: standardError() })
  // The terminal sends Ctrl-C to the line reader.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
  try {
    const question = `Start ${formatCount(pending)} rollouts? [Y/n] `
    const said = (await answerTo(lines, question, signal)) ?? 'no'
    return /^(?:y(?:es)?)?$/i.test(said.trim())
  } finally {
    lines.close()
  }
}
