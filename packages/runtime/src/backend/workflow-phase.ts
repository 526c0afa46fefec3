import { setImmediate } from 'node:timers/promises'

import { inScope, type RolloutScope } from '../containment/rollout-scope.ts'
import { thrownBy } from '../containment/thrown-by.ts'
import {
  errorCategory,
  errorMessage,
  OsmosisError,
  type EgressOptions,
  RolloutContext,
  type AgentWorkflowClass,
  type BaseWorkflowConfig,
  parseMetadata,
} from '@osmosis/core'
import { beginningOf, longErrorTextBytes } from '@osmosis/core/http'
import { cloneConfig } from '@osmosis/core/workflow'
import { setTrace } from '@osmosis/core/tracing'
import { registerReturned } from './workflow-output.ts'
import type { ConcurrencyLimiter } from './concurrency-limiter.ts'
import type { SamplesById, RolloutFailure, WorkflowOutcome } from './execution-backend.ts'
import type { LiveRollout } from './live-rollout.ts'
import { ownTurn } from './own-turn.ts'
import { QueueClock, workflowDeadline } from './phase-deadlines.ts'
import { WorkflowInput } from './workflow-input.ts'

/** What the workflow phase passes on to the grading phase. */
export interface WorkflowResult {
  outcome: WorkflowOutcome
  samples: SamplesById
  /** Names of agents that were registered and gave no sample. */
  unasked: readonly string[]
}

/** What is run in each rollout. */
interface WorkflowPlan<TConfig> {
  readonly workflow: AgentWorkflowClass<TConfig>
  readonly config: TConfig
  /** Where its model calls may go. */
  readonly egress: EgressOptions | undefined
}

/** Waits for a slot, runs the workflow and collects its samples. Never rejects. */
export async function runWorkflowPhase<TConfig>(
  live: LiveRollout,
  slots: ConcurrencyLimiter,
  { workflow, config, egress }: WorkflowPlan<TConfig>,
): Promise<WorkflowResult> {
  const { request } = live
  const clock = new QueueClock(request.queuedSeconds)
  let release: (() => void) | undefined
  let started: RolloutContext | undefined
  let by: string | undefined
  const deadline = workflowDeadline(request, clock, () => started?.pausedBy)
  live.enter(deadline)

  try {
    release = await slots.acquire(deadline.signal)
    clock.stop()
    live.apply('code_started')
    // Whoever handed the rollout over gets the thread back before user code can block it, and so do
    // all others between any two rollouts.
    await ownTurn()
    const { beforeFirstModelCall, modelCallBegins } = live
    const context = new RolloutContext({
      ...request,
      egress,
      policyLimits: (config as BaseWorkflowConfig | undefined)?.policyLimits,
      signal: deadline.signal,
      beforeFirstModelCall,
      modelCallBegins,
      onWithdrawn: (reason) => live.end(reason),
    })
    started = context
    if (live.trace !== undefined) setTrace(context, live.trace)
    const samples = await deadline.run(() =>
      context.run(async () => {
        by = 'the metadata schema'
        live.metadata = await parseMetadata(config, request.metadata)
        const copy = cloneConfig(config)
        const input = new WorkflowInput(live, copy, deadline.signal)
        by = 'the constructor of the workflow'
        const made = new workflow(copy)
        by = 'run()'
        const returned = await made.run(input)
        by = undefined
        registerReturned(context, returned, request.label)
        by = 'a sample source'
        const collected = await context.getSamples()
        by = 'run()'
        context.throwUnnoticedError()
        return collected
      }),
    )
    const unasked = context.sampleSourceNames.filter((name) => !samples.has(name))
    const warnings = warningsOf(samples, unasked, context)
    const otherCalls = context.callsOutside(samples)
    const outcome = { status: 'success', failure: null, warnings } as const
    return {
      outcome: otherCalls.length > 0 ? { ...outcome, otherCalls } : outcome,
      samples,
      unasked,
    }
  } catch (error) {
    live.trace?.fail(error)
    // Collected beside the report of the failure, which waits for nobody's sources.
    return failedWorkflow(error, partialSamples(started, deadline), by)
  } finally {
    release?.()
    deadline.clear()
    // Calls that the workflow left behind end here: nobody would record what they return.
    deadline.abort(over)
    live.trace?.endSamples()
  }
}

async function partialSamples(
  context: RolloutContext | undefined,
  scope: RolloutScope,
): Promise<SamplesById> {
  if (context === undefined) return new Map()
  // Calls that end with the workflow are recorded by then.
  await setImmediate()
  return inScope(scope, () => context.run(async () => context.getPartialSamples()))
}

/**
 * What a workflow comes to that fails of this.
 *
 * @param said - what there is of its samples; default: it has said nothing
 * @param by - the function of the user that threw; default: none did
 */
export function failedWorkflow(
  error: unknown,
  said?: WorkflowOutcome['partialSamples'],
  by?: string,
): WorkflowResult {
  const outcome = { status: 'failure', failure: toFailure(error, by), warnings: [] } as const
  return {
    outcome: said === undefined ? outcome : { ...outcome, partialSamples: said },
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
  const said = by === undefined ? errorMessage(error) : thrownBy(by, error)
  const message = beginningOf(said, longErrorTextBytes)
  return { message, category: errorCategory(error), cause: error }
}

/** Why a workflow that succeeded has no sample. */
export function noSamples(unasked: readonly string[]): OsmosisError {
  const names = unasked.map((name) => `"${name}"`).join(', ')
  return new OsmosisError(
    'no_samples',
    unasked.length === 0
      ? 'The workflow registered no sample source, so there is no sample to grade. Construct the agent or session of an adapter inside run(), call registerSampleSource() of the rollout context, or return the messages. If run() does so already, an `await` is probably missing.'
      : `There is no sample to grade: these agents were registered, but had no answer from the policy when run() ended: ${names}. Probably an \`await\` is missing, a stream was not read to its end, or the agents were never run or have a model of their own.`,
  )
}

function warningsOf(
  { size }: SamplesById,
  unasked: readonly string[],
  { policyCallCount, busySampleIds }: RolloutContext,
): string[] {
  const left = busySampleIds.length === 0 ? [] : [leftBehind(busySampleIds)]
  if (size === 0) return [noSamples(unasked).message, ...left]
  return policyCallCount === 0 ? [noModelCall] : left
}

function leftBehind(ids: readonly string[]): string {
  const names = ids.map((id) => `"${id}"`).join(', ')
  return `The policy was still answering ${names} when run() ended. That answer is in no sample, and a trainer that records at its endpoint may train it all the same: await everything the workflow starts, and read streams to their end.`
}

const noModelCall =
  'The workflow made no model call through its rollout. Did the agent use a model of its own instead of the rollout model?'

// Shared by all rollouts: it carries no data, and its stack trace would help nobody.
const over = new OsmosisError(
  'rollout_ended',
  'The workflow of this rollout has ended; a model call made now would belong to no sample. Await everything the workflow starts.',
)
