import {
  callReportsSchema,
  rolloutLossSchema,
  type CallReportBody,
  type CompletionCallbackBody,
  type GraderCallbackBody,
  type RolloutLoss,
  type SampleBody,
} from '@osmosis/protocol/wire'

import type { TokenUsage } from '../policy/usage.ts'
import type { RolloutEnding, RolloutFacts, RolloutSessions } from '../session/rollout-sessions.ts'

/**
 * Category of the failure, as the rollout server reported it; the last two only for fetched results.
 */
export type RolloutErrorCategory =
  | 'timeout'
  | 'validation_error'
  | 'http_error'
  | 'agent_error'
  /** The result was not fetched in time. */
  | 'lease_expired'
  /** The server failed, not the rollout. */
  | 'internal_error'

/** An answered model call as the rollout server reported it. */
export interface CallReport extends Omit<CallReportBody, 'step_reward'> {
  /** Null where the grader gave none. */
  readonly stepReward: number | null
}

/** A graded conversation as the rollout server reported it. */
export interface ResultSample {
  readonly id: string
  /** In the form of the agent framework. */
  readonly messages: readonly unknown[]
  readonly label: string | null
  /** Null unless the sample stays in training and was graded. */
  readonly reward: number | null
  readonly removeSample: boolean
  readonly metrics: Readonly<Record<string, unknown>>
  readonly extraFields: Readonly<Record<string, unknown>>
  /** In the order in which they were made; empty when the server reports none. */
  readonly calls: readonly CallReport[]
}

/** The report of the completion callback on the workflow. */
export interface CompletionReport {
  readonly status: 'success' | 'failure' | 'cancelled'
  readonly errorMessage: string | null
  readonly errorCategory: RolloutErrorCategory | null
  readonly extraFields: Readonly<Record<string, unknown>> | null
}

/** How a rollout ended: the one terminal result of its order. */
export interface RolloutOutcome {
  readonly rolloutId: string
  readonly status: RolloutEnding
  /**
   * By sample id; empty without a grader callback. An only sample without an id has the key `sample`.
   */
  readonly samples: ReadonlyMap<string, ResultSample>
  /** Null for a success. */
  readonly errorMessage: string | null
  /** Null for a success, and when the server gave none. */
  readonly errorCategory: RolloutErrorCategory | null
  /**
   * Why the rollout was lost through no fault of its own, if the server reports it: it may be run again under
   * another id.
   */
  readonly lostWith?: RolloutLoss
  /** Null when the rollout ended before its completion callback came. */
  readonly completion: CompletionReport | null
  /** From the completion callback to the grader's. Milliseconds; null unless both came. */
  readonly gradingMs: number | null
  /** Accepted model calls. */
  readonly policyCalls: number
  readonly usage: TokenUsage
  /** From the accepted request to the end. Milliseconds. */
  readonly durationMs: number
}

/** A controller's state of a running rollout. */
export interface WorkflowState {
  readonly graded: boolean
  completion: CompletionReport | null
  /** When the completion callback came, by `performance.now()`. */
  completedAt: number | null
}

/** The rollouts of a controller. */
export type WorkflowSessions = RolloutSessions<RolloutOutcome, WorkflowState>

/** Facts about a workflow's rollout at its end. */
export interface WorkflowRolloutFacts extends RolloutFacts {
  readonly completion: CompletionReport | null
  readonly gradingMs: number | null
}

/** Reads a completion callback. */
export function toCompletionReport(body: CompletionCallbackBody): CompletionReport {
  return {
    status: body.status,
    errorMessage: body.err_message ?? null,
    errorCategory: body.err_category ?? null,
    extraFields: body.extra_fields ?? null,
  }
}

/** The outcome of a grader callback. */
export function gradedOutcome(
  facts: WorkflowRolloutFacts,
  body: GraderCallbackBody,
): RolloutOutcome {
  const { completion } = facts
  const samples = readSamples(body)
  if (body.status === 'success' && (completion?.status ?? 'success') === 'success') {
    return { ...facts, status: 'success', samples, errorMessage: null, errorCategory: null }
  }
  return {
    ...facts,
    status: 'failure',
    samples,
    errorMessage: body.err_message ?? completion?.errorMessage ?? null,
    errorCategory: body.err_category ?? completion?.errorCategory ?? null,
    ...lossIn(body.extra_fields ?? completion?.extraFields),
  }
}

/** The outcome of a completion callback: the rollout is not graded, or was cancelled. */
export function ungradedOutcome(
  facts: WorkflowRolloutFacts,
  completion: CompletionReport,
): RolloutOutcome {
  if (completion.status === 'cancelled') {
    return unreportedOutcome(facts, 'cancelled', completion.errorMessage ?? 'cancelled')
  }
  const failed = completion.status === 'failure'
  return {
    ...facts,
    status: completion.status,
    samples: new Map(),
    errorMessage: failed ? completion.errorMessage : null,
    errorCategory: failed ? completion.errorCategory : null,
    ...lossIn(completion.extraFields),
  }
}

function lossIn(
  extraFields: Readonly<Record<string, unknown>> | null | undefined,
): Pick<RolloutOutcome, 'lostWith'> {
  const loss = rolloutLossSchema.safeParse(extraFields?.['lost_with'])
  return loss.success ? { lostWith: loss.data } : {}
}

/** The outcome of a rollout whose deadline passed, or that was cancelled. */
export function unreportedOutcome(
  facts: WorkflowRolloutFacts,
  status: 'timeout' | 'cancelled',
  errorMessage: string,
): RolloutOutcome {
  const errorCategory = status === 'timeout' ? 'timeout' : null
  return { ...facts, status, samples: new Map(), errorMessage, errorCategory }
}

/** The model calls in the extra fields of a result, by sample id; none when the server reports none. */
function readCallReports(
  extraFields: Readonly<Record<string, unknown>> | null | undefined,
): Readonly<Record<string, readonly CallReport[]>> {
  const { data = {} } = callReportsSchema.safeParse(extraFields?.['calls'])
  return Object.fromEntries(
    Object.entries(data).map(([id, reports]) => [
      id,
      reports.map(({ step_reward: stepReward, ...report }) => ({ ...report, stepReward })),
    ]),
  )
}

function readSamples(body: GraderCallbackBody): ReadonlyMap<string, ResultSample> {
  const named = Object.entries(body.samples)
  const calls = readCallReports(body.extra_fields)
  if (named.length > 0) {
    return new Map(named.map(([name, sample]) => [name, toSample(sample, calls[name])]))
  }
  if (!body.sample) return new Map()
  const [only] = Object.values(calls)
  return new Map([['sample', toSample({ ...body.sample, id: 'sample' }, only)]])
}

function toSample(body: SampleBody, calls: readonly CallReport[] = []): ResultSample {
  return {
    id: body.id,
    messages: body.messages,
    label: body.label ?? null,
    reward: body.reward ?? null,
    removeSample: body.remove_sample,
    metrics: body.metrics,
    extraFields: body.extra_fields,
    calls,
  }
}
