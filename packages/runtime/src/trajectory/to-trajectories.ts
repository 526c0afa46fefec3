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
} from './atif.ts'
import { callMetrics, mergedMetrics, totals, withoutNulls } from './call-metrics.ts'
import { toSteps, type ConversationSteps } from './conversation-steps.ts'
import {
  matchReports,
  type ReportedCall,
  type SampleReport,
  type TrajectoryReport,
} from './trajectory-report.ts'

/** A rollout that is over, with everything that its documents say about it. */
export interface EndedRollout {
  readonly rolloutId: string
  /** The row's prompt: all there is to show when the rollout ended before the policy was asked. */
  readonly initialMessages: readonly unknown[]
  readonly label: string | null
  readonly metadata: Readonly<Record<string, unknown>> | null
  /** The `extra_fields` of the request. */
  readonly extraFields: Readonly<Record<string, unknown>> | null
  /** By sample id; of a rollout that failed, whatever could be collected. */
  readonly samples: ReadonlyMap<string, RolloutSample>
  /** Which phases failed and why, in the order they did. */
  readonly failures: readonly PhaseFailure[]
  /** What looked wrong but failed nothing, one sentence each. */
  readonly warnings: readonly string[]
  /** What the controller measured; null when it said nothing. */
  readonly report: TrajectoryReport | null
}

/** Why a phase of a rollout failed, in words that may be written to a file. */
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
 * A document for each sample, and one with the prompt for a rollout that has none. Metrics are those
 * of the rollout's own call log, with those that the controller reported laid over them.
 */
export function toTrajectories(rollout: EndedRollout): SampleTrajectory[] {
  const { samples, report } = rollout
  const { bySample, unmatched } = matchReports(report, [...samples.keys()])
  const entries: [string | null, RolloutSample][] =
    samples.size === 0 ? [[null, toRolloutSample({ id: '', messages: [] })]] : [...samples]
  return entries.map(([sampleId, sample]) => {
    const own = sampleId === null ? undefined : bySample.get(sampleId)
    const trajectory = toTrajectory(rollout, sample, sampleId, own)
    // With several samples nobody could say whose they are.
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
  const without = layOverCalls(stepOf, measured)
  const agentSteps = steps.filter(({ source }) => source === 'agent')
  const reported = report?.calls ?? []
  const fits = reported.length === agentSteps.length
  if (fits) for (const [index, call] of reported.entries()) layOverReport(agentSteps[index], call)

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
          label: sample.label ?? rollout.label,
          reward: Number.isFinite(sample.reward) ? sample.reward : null,
          remove_sample: sample.removeSample ? true : null,
          sample_metrics: toFields(sample.metrics),
          sample_extra_fields: toFields(sample.extraFields),
          request_metadata: toFields(rollout.metadata),
          request_extra_fields: toFields(rollout.extraFields),
          failures: rollout.failures.length > 0 ? [...rollout.failures] : null,
          calls_without_step: without.length > 0 ? without : null,
          unmatched_llm_call_metrics:
            !fits && reported.length > 0 ? reported.map(callFields) : null,
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

/** The conversation as the policy saw it; without one, what the framework kept; else the prompt. */
function conversationOf(
  { initialMessages }: EndedRollout,
  { trajectoryMessages, messages }: RolloutSample,
): ConversationSteps {
  const said = trajectoryMessages?.length ? trajectoryMessages : messages
  const conversation = toSteps(said.length > 0 ? said : initialMessages)
  if (conversation.steps.length > 0) return conversation
  // A document has at least one step.
  return { steps: [{ step_id: 1, source: 'system', message: '' }], stepOf: [] }
}

/** Puts each call into the step of its answer, and returns those that have none in this conversation. */
function layOverCalls(
  stepOf: readonly TrajectoryStep[],
  calls: readonly { readonly call: PolicyCall; readonly metrics: TrajectoryMetrics }[],
): Record<string, unknown>[] {
  const without: Record<string, unknown>[] = []
  for (const { call, metrics } of calls) {
    const step = call.answerIndex === null ? undefined : stepOf[call.answerIndex]
    const startedAt = new Date(call.startedAt).toISOString()
    if (step?.source !== 'agent' || step.metrics) {
      without.push({ started_at: startedAt, ...withoutNulls({ error: call.error }), ...metrics })
      continue
    }
    Object.assign(step, { timestamp: startedAt, metrics, llm_call_count: 1 })
    if (call.model !== null) step.model_name = call.model
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
