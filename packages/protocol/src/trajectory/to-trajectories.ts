import { createRequire } from 'node:module'

import {
  type ErrorCategory,
  type PolicyCall,
  toRolloutSample,
  type RolloutSample,
} from '@osmosis/core'

import { toTelemetryJson } from '../http/telemetry-json.ts'
import {
  trajectoryVersion,
  type Trajectory,
  type TrajectoryMetrics,
  type TrajectoryStep,
  type TrajectoryFinalMetrics,
} from './atif.ts'
import { toSteps, type ConversationSteps } from './conversation-steps.ts'
import { instructedSteps } from './instructed-steps.ts'
import { wrongIdsOf } from './training-sequences.ts'
import {
  matchReports,
  type ReportedCall,
  type SampleReport,
  type TrajectoryReport,
} from './trajectory-report.ts'

/** An ended rollout, with everything that its documents contain. */
export interface EndedRollout {
  readonly rolloutId: string
  /** The row's prompt, which is shown when the rollout ended before its first model call. */
  readonly initialMessages: readonly unknown[]
  readonly label: string | null
  readonly metadata: Readonly<Record<string, unknown>> | null
  /** The `extra_fields` of the request. */
  readonly extraFields: Readonly<Record<string, unknown>> | null
  /** By sample id; of a failed rollout, the samples that could be collected. */
  readonly samples: ReadonlyMap<string, RolloutSample>
  /** The failures of its phases, in order. */
  readonly failures: readonly PhaseFailure[]
  /** Problems that did not fail the rollout, one sentence each. */
  readonly warnings: readonly string[]
  /** What the controller measured; null when it reported nothing. */
  readonly report: TrajectoryReport | null
}

/** Why a phase of a rollout failed, as text that may be written to a file. */
export interface PhaseFailure {
  readonly phase: 'workflow' | 'grading'
  readonly category: ErrorCategory
  readonly message: string
}

/** The document of one sample; the id is null for a rollout without any. */
export interface SampleTrajectory {
  readonly sampleId: string | null
  readonly trajectory: Trajectory
}

/**
 * A document for each sample, or one with the prompt for a rollout without samples. Metrics come from the
 * rollout's call log; those that the controller reported override them.
 */
export function toTrajectories(rollout: EndedRollout): SampleTrajectory[] {
  const { samples, report } = rollout
  const { bySample, unmatched } = matchReports(report, [...samples.keys()])
  const entries: [string | null, RolloutSample][] =
    samples.size === 0 ? [[null, toRolloutSample({ id: '', messages: [] })]] : [...samples]
  return entries.map(([sampleId, sample]) => {
    const own = sampleId === null ? undefined : bySample.get(sampleId)
    const trajectory = toTrajectory(rollout, sample, sampleId, own)
    // With several samples it is unknown to which one they belong.
    if (entries.length === 1 && unmatched.size > 0) {
      osmosisOf(trajectory)['unmatched_sample_reports'] = Object.fromEntries(
        [...unmatched].map(([key, value]) => [key, reportFields(value)]),
      )
    }
    return { sampleId, trajectory }
  })
}

function toTrajectory(
  rollout: EndedRollout,
  sample: RolloutSample,
  sampleId: string | null,
  report: SampleReport | undefined,
): Trajectory {
  const { rolloutId } = rollout
  const { steps, stepOf } = conversationOf(rollout, sample)
  const measured = measuredCalls(sample)
  const reported = report?.calls ?? []
  const answered = measured.filter(({ call }) => call.error === null)
  const agentSteps = steps.filter(({ source }) => source === 'agent')
  // Answers in the conversation may be examples of the prompt, so the calls count first, and the order of the answers only where
  // they are as many as the entries and the calls are not.
  const isByCall = reported.length === answered.length
  const isByStep = !isByCall && reported.length === agentSteps.length
  const reportOf = new Map(
    isByCall ? answered.map(({ call }, index) => [call, reported[index]] as const) : [],
  )
  const without = layOverCalls(stepOf, measured, reportOf)
  if (isByStep) {
    for (const [index, call] of reported.entries()) layOverReport(agentSteps[index], call)
  }

  const answering = sample.calls.findLast(({ model }) => model !== null)?.model
  const model = report?.modelName ?? rollout.report?.modelName ?? answering
  const several = rollout.samples.size > 1
  return {
    schema_version: trajectoryVersion,
    session_id: rolloutId,
    trajectory_id: several ? `${rolloutId}/${sampleId}` : rolloutId,
    agent: {
      name: 'osmosis-rollout-sdk',
      version: sdkVersion(),
      ...(model === null || model === undefined ? {} : { model_name: model }),
    },
    steps,
    final_metrics: {
      ...totals(measured.map(({ metrics }) => metrics)),
      ...totals(reported.map(({ metrics }) => metrics)),
      ...withoutNulls(report?.finalMetrics ?? {}),
      total_steps: steps.length,
    },
    extra: {
      osmosis: {
        rollout_id: rolloutId,
        ...withoutNulls({
          sample_id: sampleId,
          label: toFields({ label: sample.label })?.['label'] ?? rollout.label,
          reward: Number.isFinite(sample.reward) ? sample.reward : null,
          remove_sample: sample.removeSample ? true : null,
          sample_metrics: toFields(sample.metrics),
          sample_extra_fields: toFields(sample.extraFields),
          request_metadata: toFields(rollout.metadata),
          request_extra_fields: toFields(rollout.extraFields),
          failures: rollout.failures.length > 0 ? [...rollout.failures] : null,
          calls_without_step: without.length > 0 ? without : null,
          unmatched_llm_call_metrics:
            isByCall || isByStep || reported.length === 0 ? null : reported.map(callFields),
        }),
      },
    },
  }
}

/** Step rewards belong to the answered calls, in their order. */
function measuredCalls({
  calls,
  stepRewards,
}: RolloutSample): { readonly call: PolicyCall; readonly metrics: TrajectoryMetrics }[] {
  const rewards = stepRewards?.values()
  return calls.map((call) => {
    const reward = call.error === null ? rewards?.next().value : null
    return { call, metrics: callMetrics(call, reward) }
  })
}

/** The conversation as the policy saw it, or else the framework's messages, or else the prompt. */
function conversationOf(
  { initialMessages }: EndedRollout,
  { trajectoryMessages, messages, calls }: RolloutSample,
): ConversationSteps {
  const recorded = trajectoryMessages?.length ? trajectoryMessages : messages
  const conversation =
    recorded.length > 0 ? instructedSteps(recorded, calls) : toSteps(initialMessages)
  if (conversation.steps.length > 0) return conversation
  // A document has at least one step.
  return { steps: [{ step_id: 1, source: 'system', message: '' }], stepOf: [] }
}

/** Adds each call, with what was reported of it, to the step of its answer. Returns the calls without a step in this conversation. */
function layOverCalls(
  stepOf: readonly TrajectoryStep[],
  calls: readonly { readonly call: PolicyCall; readonly metrics: TrajectoryMetrics }[],
  reportOf: ReadonlyMap<PolicyCall, ReportedCall | undefined>,
): Record<string, unknown>[] {
  const without: Record<string, unknown>[] = []
  for (const { call, metrics: own } of calls) {
    const reported = reportOf.get(call)
    const metrics = reported === undefined ? own : mergedMetrics(own, reported.metrics)
    const step = call.answerIndex === null ? undefined : stepOf[call.answerIndex]
    const startedAt = new Date(call.startedAt).toISOString()
    if (step?.source !== 'agent' || step.metrics) {
      without.push({ started_at: startedAt, ...withoutNulls({ error: call.error }), ...metrics })
      continue
    }
    Object.assign(step, { timestamp: startedAt, metrics, llm_call_count: 1 })
    const model = reported?.modelName ?? call.model
    if (model !== null) step.model_name = model
  }
  return without
}

function layOverReport(step: TrajectoryStep | undefined, reported: ReportedCall): void {
  if (step === undefined) return
  const metrics = mergedMetrics(step.metrics ?? {}, reported.metrics)
  if (Object.keys(metrics).length > 0) step.metrics = metrics
  if (reported.modelName !== null) step.model_name = reported.modelName
  step.llm_call_count = 1
}

function osmosisOf({ extra }: Trajectory): Record<string, unknown> {
  return extra?.['osmosis'] as Record<string, unknown>
}

function reportFields({ modelName, calls, finalMetrics }: SampleReport): Record<string, unknown> {
  return withoutNulls({
    model_name: modelName,
    llm_call_metrics: calls.map(callFields),
    final_metrics: finalMetrics,
  })
}

function callFields({ modelName, metrics }: ReportedCall): Record<string, unknown> {
  return withoutNulls({ model_name: modelName, ...metrics })
}

/** Fields of user code as JSON data; null for none. */
function toFields(fields: unknown): Record<string, unknown> | null {
  const plain = toTelemetryJson(fields, new Set())
  return Object.keys(plain).length === 0 ? null : plain
}

function sdkVersion(): string {
  const manifest = createRequire(import.meta.url)('@osmosis/core/package.json') as {
    version: string
  }
  return manifest.version
}

/**
 * The metrics of a model call from our own log. Malformed fields of the endpoint are left out.
 *
 * @param stepReward - the reward that the grader set for the call; null without one
 */
function callMetrics(call: PolicyCall, stepReward: number | null = null): TrajectoryMetrics {
  const { usage, promptTokenIds, completionTokenIds } = call
  const details = fieldsOf(usage?.['prompt_tokens_details'])
  return withoutNulls({
    prompt_tokens: toCount(usage?.prompt_tokens),
    completion_tokens: toCount(usage?.completion_tokens),
    cached_tokens: toCount(details['cached_tokens']) ?? toCount(usage?.['cached_tokens']),
    cost_usd: toFinite(usage?.['cost_usd']),
    prompt_token_ids: toWholeNumbers(promptTokenIds),
    completion_token_ids: toWholeNumbers(completionTokenIds),
    logprobs: toLogprobs(call),
    extra: withoutNulls({
      response_id: call.id,
      policy_version: call.version,
      // Only where it is not an ordinary call of the agent.
      purpose: call.purpose === 'agent' ? null : call.purpose,
      agent: call.agent,
      trainable: call.trainable && wrongIdsOf(call) === undefined ? null : false,
      sampling: toFields(call.sampling),
      step_reward: stepReward,
      latency_ms: Math.round(call.durationMs),
      time_to_first_chunk_ms:
        call.timeToFirstChunkMs === null ? null : Math.round(call.timeToFirstChunkMs),
      attempts: call.attempts,
      finish_reason: call.finishReason,
      // Only present where true: a trainer splits or masks here.
      history_rewritten: call.extendsPrevious ? null : true,
      history_rewritten_at: call.rewrittenAt,
      instructions_changed: call.instructionsChanged ? true : null,
      ...usageDetails(usage),
    }),
  })
}

/** Merges field by field, so that no known value is lost. */
function mergedMetrics(own: TrajectoryMetrics, reported: TrajectoryMetrics): TrajectoryMetrics {
  const extra = { ...own.extra, ...reported.extra }
  return {
    ...own,
    ...withoutNulls(reported),
    ...(Object.keys(extra).length === 0 ? {} : { extra }),
  }
}

/** Sums of the known numbers; a sum of none is left out. */
function totals(entries: readonly TrajectoryMetrics[]): TrajectoryFinalMetrics {
  const sum = (key: 'prompt_tokens' | 'completion_tokens' | 'cached_tokens' | 'cost_usd') => {
    const known = entries.flatMap((entry) => entry[key] ?? [])
    return known.length === 0 ? null : known.reduce((total, value) => total + value, 0)
  }
  return withoutNulls({
    total_prompt_tokens: sum('prompt_tokens'),
    total_completion_tokens: sum('completion_tokens'),
    total_cached_tokens: sum('cached_tokens'),
    total_cost_usd: sum('cost_usd'),
  })
}

type Given<T> = { [K in keyof T]?: NonNullable<T[K]> }

/** A copy without nulls, which documents leave out. */
function withoutNulls<T extends object>(fields: T): Given<T> {
  const given = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined)
  return Object.fromEntries(given) as Given<T>
}

function usageDetails(usage: PolicyCall['usage']): Record<string, unknown> {
  const details = Object.entries(usage ?? {}).filter(
    ([key, value]) => key.endsWith('_details') && value !== null,
  )
  return toTelemetryJson(Object.fromEntries(details), new Set())
}

function toLogprobs({ logprobs }: PolicyCall): number[] | null {
  const values = logprobs?.content?.map((token) => fieldsOf(token)['logprob'])
  return values?.length && values.every((value) => toFinite(value) !== null)
    ? (values as number[])
    : null
}

function toWholeNumbers(values: readonly unknown[] | null): number[] | null {
  return Array.isArray(values) && values.every(Number.isSafeInteger) ? (values as number[]) : null
}

function toCount(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : null
}

function toFinite(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
