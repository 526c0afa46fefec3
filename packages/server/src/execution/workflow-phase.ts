import { setImmediate as nextTurn } from 'node:timers/promises'

import {
  errorCategory,
  errorMessage,
  OsmosisError,
  type EgressOptions,
  RolloutContext,
  type AgentWorkflowClass,
  type BaseWorkflowConfig,
  parseRow,
  type AgentWorkflowContext,
  type RolloutGroup,
  type MetadataOf,
  type PromptMessage,
  type WorkFolderOptions,
} from '@osmosis/core'
import {
  beginningOf,
  longErrorTextBytes,
  type LongTimer,
  startTimer,
  untilAborted,
} from '@osmosis/core/http'
import { RolloutBudget } from '@osmosis/core/policy'
import { setTrace } from '@osmosis/core/tracing'
import { cloneConfig, recordOf, type SampleRegistry } from '@osmosis/core/workflow'
import type { SamplesById, RolloutFailure, WorkflowOutcome } from '@osmosis/protocol'

import { thrownBy } from '../containment/error-place.ts'
import { runInRollout, type RolloutScope } from '../containment/user-code.ts'
import { QueueClock, workflowDeadline } from './deadline.ts'
import type { ArtifactsFolder, LiveRollout } from './live-rollout.ts'
import { endedWithoutOutput, registerReturned, storeOutput } from './run-output.ts'
import { type ConcurrencyLimiter, ownTurn } from './slots/concurrency-limiter.ts'
import { type EarlyEnd, earlyEnd, promptTooLong, withFailedCall } from './workflow-faults.ts'

const artifacts = Symbol('artifacts')

/** Creates the folder on first access. */
const artifactsDir = {
  enumerable: true,
  get(this: { readonly [artifacts]: ArtifactsFolder }) {
    return this[artifacts].path
  },
}

/** The argument of `run()`, which user code may copy. */
class WorkflowInput<TConfig> implements AgentWorkflowContext<TConfig> {
  readonly prompt: PromptMessage[]
  readonly config: TConfig
  readonly metadata: MetadataOf<TConfig>
  readonly rolloutId: string
  readonly group: RolloutGroup | null
  readonly signal: AbortSignal
  /** A function of its own, so that copies of the input have it. */
  readonly workFolder: (options?: WorkFolderOptions) => Promise<string>
  declare readonly artifactsDir: string | null
  declare readonly [artifacts]: ArtifactsFolder

  constructor(live: LiveRollout, config: TConfig, signal: AbortSignal) {
    const { rolloutId, initialMessages, group } = live.request
    this.prompt = cloneConfig([...initialMessages])
    this.config = config
    this.metadata = live.metadata as MetadataOf<TConfig>
    this.rolloutId = rolloutId
    this.group = group ?? null
    this.signal = signal
    this.workFolder = (options) => live.openWorkFolder(options)
    // An own property, so that copies have it. The getter is shared, because an object literal with a
    // getter takes several times as much memory for as long as the workflow runs.
    Object.defineProperties(this, { [artifacts]: { value: live.artifacts }, artifactsDir })
  }
}

/** The result of the workflow phase for the grading phase. */
export interface WorkflowResult {
  outcome: WorkflowOutcome
  samples: SamplesById
  /** Names of registered agents that did not call the policy and so have no sample. */
  unasked: readonly string[]
  /** Whether its samples are removed from training without grading. Default: false. */
  isRemoved?: boolean
}

/** The user code of each rollout. */
interface WorkflowPlan<TConfig> {
  readonly workflow: AgentWorkflowClass<TConfig>
  readonly config: TConfig
  readonly graderConfig: unknown
  /** Where its model calls may connect to. */
  readonly egress: EgressOptions | undefined
}

/** Waits for a slot, runs the workflow and collects its samples. Never rejects. */
export async function runWorkflowPhase<TConfig>(
  live: LiveRollout,
  slots: ConcurrencyLimiter,
  { workflow, config, graderConfig, egress }: WorkflowPlan<TConfig>,
): Promise<WorkflowResult> {
  const { request, gates } = live
  const clock = new QueueClock(request.queuedSeconds)
  let release: (() => void) | undefined
  const settings = (config ?? {}) as Partial<BaseWorkflowConfig>
  const { rolloutLimits = {}, policyLimits } = settings
  const budget = new RolloutBudget(rolloutLimits, (reason) => deadline.abort(reason))
  let timer: LongTimer | undefined
  let started: RolloutContext | undefined
  let by: string | undefined
  const deadline = workflowDeadline(request, clock, () => started && recordOf(started).paused[0])
  live.enter(deadline)

  try {
    release = await slots.acquire(deadline.signal)
    clock.stop()
    live.apply('code_started')
    // What the reader does about the start, and everything else that is due, is done before user code can block the
    // thread or end the process.
    await untilAborted(deadline.signal, () => live.startIsRead)
    await ownTurn()
    const context = new RolloutContext({
      ...request,
      egress,
      policyLimits,
      budget,
      signal: deadline.signal,
      ...gates,
      onWithdrawn: (reason) => live.end(reason),
    })
    started = context
    if (live.trace !== undefined) setTrace(context, live.trace)
    const { seconds } = rolloutLimits
    if (seconds !== undefined) timer = startTimer(seconds * 1000, () => budget.reach('seconds'))
    const samples = await deadline.run(() =>
      context.run(async () => {
        by = 'a schema of the row'
        // A copy, as the prompt is: documents, and other attempts of a group, need the row as it was requested.
        const row = { ...request, metadata: cloneConfig(request.metadata) }
        live.metadata = await parseRow({ workflowConfig: settings, graderConfig }, row)
        const copy = cloneConfig(config)
        const input = new WorkflowInput(live, copy, deadline.signal)
        by = 'the constructor of the workflow'
        const instance = new workflow(copy)
        by = 'run()'
        live.userCode = instance.run(input)
        const returned = await live.userCode
        by = undefined
        live.output = registerReturned(context, returned, request.label)
        by = 'a sample source'
        const collected = await context.getSamples()
        storeOutput(live.output, collected)
        by = 'run()'
        recordOf(context).throwUnnoticedError()
        return collected
      }),
    )
    const unasked = context.sampleSourceNames.filter((name) => !samples.has(name))
    const warnings = warningsOf(samples, unasked, recordOf(context))
    return {
      outcome: success(context, samples, warnings),
      samples,
      unasked,
    }
  } catch (error) {
    const isOfRun = by === 'run()'
    const early =
      started && earlyEnd(error, { context: started, reached: budget.reached, settings, isOfRun })
    if (started !== undefined && early !== undefined) {
      live.output = endedWithoutOutput
      return await endedEarly(error, { context: started, scope: deadline, ...early, by })
    }
    const failure = started && isOfRun ? withFailedCall(error, started) : error
    live.trace?.fail(failure)
    // Collected while the failure is reported, which must not wait for user code.
    return failedWorkflow(failure, collectPartialSamples(started, deadline), by)
  } finally {
    release?.()
    timer?.clear()
    deadline.clear()
    // Ends calls that the workflow left behind, because their answers could not be recorded.
    deadline.abort(over)
    live.trace?.endSamples()
  }
}

interface EndedEarly extends EarlyEnd {
  readonly context: RolloutContext
  readonly scope: RolloutScope
  readonly by: string | undefined
}

/** The result of a workflow that ended early: its samples so far. Without an answer, it has failed. */
async function endedEarly(
  error: unknown,
  { context, scope, field: [name, reason], isRemoved, by }: EndedEarly,
): Promise<WorkflowResult> {
  // Calls that the end aborted are recorded after this turn.
  await nextTurn()
  const samples = await runInRollout(scope, () =>
    context.run(() => recordOf(context).samplesSoFar()),
  )
  const calls = [...samples.values()].flatMap((sample) => sample.calls)
  const isAnswered = calls.some((call) => call.error === null)
  // Frameworks may report a failed call as a bad answer.
  const hasFailed = name === 'model_error' && calls.at(-1)?.error !== null
  if (!isAnswered || hasFailed) {
    const failure = by === 'run()' ? withFailedCall(promptTooLong(error, context), context) : error
    return failedWorkflow(failure, collectPartialSamples(context, scope), by)
  }
  for (const sample of samples.values()) {
    sample.extraFields[name] = reason
    if (isRemoved) sample.removeSample = true
  }
  return {
    outcome: success(context, samples, [errorMessage(error)]),
    samples,
    unasked: [],
    isRemoved,
  }
}

function success(
  context: RolloutContext,
  samples: SamplesById,
  warnings: readonly string[],
): WorkflowOutcome {
  const otherCalls = recordOf(context).callsOutside(samples)
  const outcome = { status: 'success', failure: null, warnings } as const
  return otherCalls.length > 0 ? { ...outcome, otherCalls } : outcome
}

async function collectPartialSamples(
  context: RolloutContext | undefined,
  scope: RolloutScope,
): Promise<SamplesById> {
  if (context === undefined) return new Map()
  // Calls that the end of the workflow aborts are recorded after this turn.
  await nextTurn()
  return runInRollout(scope, () => context.run(async () => recordOf(context).partialSamples()))
}

/**
 * The result of a workflow that failed with this error.
 *
 * @param partialSamples - default: it has none
 * @param by - the function of the user that threw; default: none did
 */
export function failedWorkflow(
  error: unknown,
  partialSamples?: WorkflowOutcome['partialSamples'],
  by?: string,
): WorkflowResult {
  const outcome = { status: 'failure', failure: toFailure(error, by), warnings: [] } as const
  return {
    outcome: partialSamples === undefined ? outcome : { ...outcome, partialSamples },
    samples: new Map(),
    unasked: [],
  }
}

/**
 * An error as the outcome of a phase.
 *
 * @param by - the function of the user that threw; default: none did
 */
export function toFailure(error: unknown, by?: string): RolloutFailure {
  const text = by === undefined ? errorMessage(error) : thrownBy(by, error)
  const message = beginningOf(text, longErrorTextBytes)
  return { message, category: errorCategory(error), cause: error }
}

/** The error of a workflow that succeeded without a sample. */
export function noSamples(unasked: readonly string[], hasCalls: boolean): OsmosisError {
  const names = unasked.map((name) => `"${name}"`).join(', ')
  const withoutSource = hasCalls ? noSource : noModelCall
  const unanswered = `There is no sample to grade: these agents were registered, but had no answer from the policy when run() ended: ${names}. Probably an \`await\` is missing, a stream was not read to its end, or the agents were never run or have a model of their own.`
  return new OsmosisError('no_samples', unasked.length === 0 ? withoutSource : unanswered)
}

function warningsOf(
  { size }: SamplesById,
  unasked: readonly string[],
  { callCount, busyIds }: SampleRegistry,
): string[] {
  const unfinished = busyIds.length === 0 ? [] : [unfinishedCalls(busyIds)]
  if (size === 0) return [noSamples(unasked, callCount > 0).message, ...unfinished]
  return callCount === 0 ? [noModelCall] : unfinished
}

function unfinishedCalls(ids: readonly string[]): string {
  const names = ids.map((id) => `"${id}"`).join(', ')
  return `The policy was still answering ${names} when run() ended. That answer is in no sample, but a trainer that records at its endpoint may still train on it: await everything the workflow starts, and read streams to their end.`
}

const noModelCall =
  'No model call reached the policy. The agent probably still has its old model: give it that of its adapter, and await its run.'

const noSource =
  'The workflow registered no sample source, so there is no sample to grade. Call registerPolicySample() or registerSampleSource() of the rollout context, or return the messages.'

// Shared by all rollouts: it carries no data, and its stack trace would be of no use.
const over = new OsmosisError(
  'rollout_ended',
  'The workflow of this rollout has ended; a model call made now would belong to no sample. Await everything the workflow starts.',
)
