import {
  AgentWorkflow,
  OsmosisError,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type ErrorCategory,
  type OsmosisErrorCode,
  type RolloutSample,
} from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { reportOf, type RolloutReport } from '@osmosis/protocol'
import { runOutputField } from '@osmosis/protocol/wire'
import { LocalBackend, type Entrypoint } from '@osmosis/server/execution'

import { meanMetrics } from '../run/items/item-record.ts'
import type { GradedSample, WireConversation } from '../store/write/run-store.ts'
import {
  failedGrade,
  gradeOf,
  type GradeRollouts,
  type RolloutGrade,
  type StoredRollout,
} from './rollout-grade.ts'

/** A grader with the configs for it and its context. */
export interface StoredGrading extends Pick<Entrypoint, 'graderConfig' | 'workflowConfig'> {
  readonly grader: NonNullable<Entrypoint['grader']>
  /** Deadline for one rollout. Seconds; null is unbounded. */
  readonly timeoutSeconds: number | null
  /** The folder of the files of rollouts. */
  readonly artifactRoot: string
}

/**
 * Grades stored samples as a rollout server does, with the same deadline, limits and checks: the server's
 * backend runs a workflow that returns the stored samples. Samples that were removed from training stay
 * removed, unless the grader sets their `removeSample` to false.
 */
export function gradeByGrader(options: StoredGrading): GradeRollouts {
  const pending = new Map<string, StoredRollout>()

  class StoredSamples extends AgentWorkflow {
    async run({ rolloutId }: AgentWorkflowContext): Promise<unknown> {
      const stored = pending.get(rolloutId)
      if (stored?.failure !== undefined) throw asThrown(stored.failure)
      const rollout = requireRolloutContext('a re-grading')
      const { samples = {}, wire } = stored?.graded ?? {}
      for (const [id, sample] of Object.entries(samples)) {
        rollout.registerSampleSource(id, { getSample: () => toSample(id, sample, wire?.[id]) })
      }
      return storedOutput(Object.values(samples))
    }
  }

  const { grader, graderConfig, workflowConfig, timeoutSeconds, artifactRoot } = options
  const backend = new LocalBackend({
    workflow: StoredSamples,
    workflowConfig,
    grader,
    graderConfig,
    artifactRoot,
  })
  const grade = async (stored: StoredRollout): Promise<RolloutGrade> => {
    const { rolloutId, group } = stored
    const { label, metadata } = stored.graded
    pending.set(rolloutId, stored)
    try {
      const request = { ...storedRequest, rolloutId, group, label, metadata }
      const timed = { ...request, graderTimeoutSeconds: timeoutSeconds }
      return toGrade(await reportOf(backend.execute(timed)))
    } finally {
      pending.delete(rolloutId)
    }
  }
  return async (rollouts) => Promise.all(rollouts.map(grade))
}

/** What `run()` returned; null where the policy ended the rollout, and undefined where nothing is stored. */
function storedOutput(samples: readonly GradedSample[]): unknown {
  const fields = samples.map(({ extra_fields: extra }) => extra)
  const withOutput = fields.find((extra) => runOutputField in extra)
  if (withOutput !== undefined) return withOutput[runOutputField]
  const endedEarly = fields.some((extra) => 'limit_reached' in extra || 'model_error' in extra)
  return endedEarly ? null : undefined
}

/** An error of the category that a rollout failed with. */
function asThrown({ category, message }: NonNullable<StoredRollout['failure']>): Error {
  const code = codes[category]
  return code === undefined ? new Error(message) : new OsmosisError(code, message)
}

const codes: Partial<Record<ErrorCategory, OsmosisErrorCode>> = {
  timeout: 'timeout',
  validation_error: 'invalid_request',
  http_error: 'policy_unreachable',
}

/** Fields of a request that re-grading does not use: no model is called. */
const storedRequest = {
  initialMessages: [],
  chatCompletionsUrl: 'http://127.0.0.1:9',
  apiKey: undefined,
  agentTimeoutSeconds: null,
  grade: true,
}

function toSample(
  id: string,
  stored: GradedSample,
  wire: WireConversation | undefined,
): RolloutSample {
  const { messages, label, metrics, extra_fields: extraFields, removed } = stored
  const sample = toRolloutSample({
    id,
    messages,
    label,
    metrics,
    extraFields,
    trajectoryMessages: (wire?.messages as readonly ChatMessage[] | undefined) ?? null,
  })
  sample.removeSample = removed ?? false
  return sample
}

function toGrade({ workflow, grading }: RolloutReport): RolloutGrade {
  const failure = workflow.failure ?? grading?.failure ?? null
  const samples = grading?.samples ?? new Map<string, RolloutSample>()
  if (failure !== null) return failedGrade(failure.category, failure.message, failure.cause)
  const all = [...samples.values()]
  const inTraining = all.filter(({ removeSample }) => !removeSample)
  const rewards = all.map(({ id, removeSample, reward }): [string, number | null] => [
    id,
    removeSample ? null : reward,
  ])
  return gradeOf(
    Object.fromEntries(rewards),
    inTraining.map(({ id }) => id),
    meanMetrics(inTraining.map(({ metrics }) => metrics)),
  )
}
