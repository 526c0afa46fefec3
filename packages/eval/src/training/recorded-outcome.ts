import type { RolloutSample } from '@osmosis/core'
import type {
  GradingOutcome,
  RolloutRequest,
  SamplesById,
  WorkflowOutcome,
} from '@osmosis/protocol'
import { toTrajectories } from '@osmosis/protocol/trajectory'

import { meanMetrics, unnamedSample } from '../run/items/item-record.ts'
import type { ItemOutcome } from '../run/items/item-runner.ts'
import type { GradedRollout } from '../store/write/run-store.ts'
import { average } from '../analysis/statistics/estimate.ts'

/** What a backend reported about a rollout. */
export interface ReportedEnd {
  readonly workflow: WorkflowOutcome | undefined
  /** Of the workflow, before grading. */
  readonly samples: SamplesById | undefined
  readonly grading: GradingOutcome | undefined
  readonly durationMs: number
}

/** The outcome of a rollout of a worker, as evaluations have them. A failure has no reward, never 0. */
export async function recordedOutcome(
  request: RolloutRequest,
  { workflow, samples: own, grading, durationMs }: ReportedEnd,
): Promise<ItemOutcome> {
  const failure = workflow?.failure ?? grading?.failure ?? null
  const collected = (await workflow?.partialSamples) ?? new Map<string, RolloutSample>()
  const samples = [grading?.samples, own].find((some) => (some?.size ?? 0) > 0) ?? collected
  const all = [...samples.values()]
  const inTraining = all.filter(({ removeSample }) => !removeSample)
  const rewards = inTraining.flatMap(({ reward }) => reward ?? [])
  const isRewarded = failure === null && rewards.length > 0 && rewards.length === inTraining.length
  const isRemoved = failure === null && all.length > 0 && inTraining.length === 0
  const message = failure?.message ?? (isRewarded || isRemoved ? null : 'the rollout has no reward')
  const status = message !== null ? 'failed' : isRemoved ? 'skipped' : 'success'
  const documents = toTrajectories({
    rolloutId: request.rolloutId,
    initialMessages: request.initialMessages,
    label: request.label,
    metadata: request.metadata,
    extraFields: null,
    samples,
    failures:
      failure === null
        ? []
        : [{ phase: phaseOf(workflow), category: failure.category, message: failure.message }],
    warnings: [],
    report: null,
  })
  return {
    status,
    reward: isRewarded ? average(rewards) : null,
    sampleRewards: Object.fromEntries(all.map(({ id, reward }) => [id, reward ?? null])),
    samples: [],
    usage: null,
    durationMs,
    errorType: status === 'failed' ? (failure?.category ?? 'missing_reward') : null,
    errorMessage: message,
    record: {
      trajectories: Object.fromEntries(
        documents.map(({ sampleId, trajectory }) => [sampleId ?? unnamedSample, trajectory]),
      ),
      graded: all.length === 0 ? null : gradedOf(request, samples),
      metrics: meanMetrics(inTraining.map(({ metrics }) => metrics)),
      gradingMs: null,
      trouble: null,
    },
  }
}

function phaseOf(workflow: WorkflowOutcome | undefined): 'workflow' | 'grading' {
  return workflow?.status === 'success' ? 'grading' : 'workflow'
}

function gradedOf({ label, metadata }: RolloutRequest, samples: SamplesById): GradedRollout {
  return {
    label,
    metadata,
    artifacts: null,
    samples: Object.fromEntries(
      [...samples.values()].map((sample) => [
        sample.id,
        {
          messages: sample.messages,
          label: sample.label,
          metrics: sample.metrics,
          extra_fields: sample.extraFields,
          ...(sample.removeSample ? { removed: true } : {}),
        },
      ]),
    ),
  }
}
