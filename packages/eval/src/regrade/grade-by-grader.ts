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
import {
  LocalBackend,
  type Entrypoint,
  type GradingOutcome,
  type RolloutRequest,
} from '@osmosis/runtime'

import { meanMetrics } from '../run/kept-item.ts'
import type { GradedSample } from '../store/run-store.ts'
import {
  failedGrade,
  gradeOf,
  type GradeRollouts,
  type RolloutGrade,
  type StoredRollout,
} from './rollout-grade.ts'

/** A grader with the configs that it and its context are made of. */
export interface StoredGrading extends Pick<Entrypoint, 'graderConfig' | 'workflowConfig'> {
  readonly grader: NonNullable<Entrypoint['grader']>
  /** How long it may take for one rollout. Seconds; null is unbounded. */
  readonly timeoutSeconds: number | null
  /** What rollouts keep their files in. */
  readonly artifactRoot: string
}

/**
 * Grades stored samples as a rollout server does, with the same deadline, limits and checks: the
 * backend of the server runs a workflow that gives it the samples as they were. Samples that were
 * taken out of training stay out, unless the grader sets their `removeSample` to false.
 */
export function gradeByGrader(options: StoredGrading): GradeRollouts {
  const waiting = new Map<string, StoredRollout>()

  class StoredSamples extends AgentWorkflow {
    async run({ rolloutId }: AgentWorkflowContext): Promise<void> {
      const stored = waiting.get(rolloutId)
      if (stored?.failure !== undefined) throw asThrown(stored.failure)
      const rollout = requireRolloutContext('a re-grading')
      for (const [id, sample] of Object.entries(stored?.graded.samples ?? {})) {
        rollout.registerSampleSource(id, { getSample: () => toSample(id, sample) })
      }
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
    waiting.set(rolloutId, stored)
    try {
      const request = { ...storedRequest, rolloutId, group, label, metadata }
      return await gradedBy(backend, { ...request, graderTimeoutSeconds: timeoutSeconds })
    } finally {
      waiting.delete(rolloutId)
    }
  }
  return async (rollouts) => Promise.all(rollouts.map(grade))
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

/** Of a rollout that is over: its workflow has nothing to ask, and graders have no way to. */
const storedRequest = {
  initialMessages: [],
  chatCompletionsUrl: 'http://127.0.0.1:9',
  apiKey: undefined,
  agentTimeoutSeconds: null,
  grade: true,
}

function gradedBy(backend: LocalBackend, request: RolloutRequest): Promise<RolloutGrade> {
  return new Promise((resolve, reject) => {
    const observer = {
      workflowFinished: async () => {},
      gradingFinished: async (outcome: GradingOutcome) => resolve(toGrade(outcome)),
    }
    backend.execute(request, observer).catch(reject)
  })
}

function toSample(id: string, stored: GradedSample): RolloutSample {
  const { messages, label, metrics, extra_fields: extraFields, removed } = stored
  const sample = toRolloutSample({ id, messages, label, metrics, extraFields })
  sample.removeSample = removed ?? false
  return sample
}

function toGrade({ failure, samples }: GradingOutcome): RolloutGrade {
  if (failure !== null) return failedGrade(failure.category, failure.message, failure.cause)
  const all = [...samples.values()]
  const kept = all.filter(({ removeSample }) => !removeSample)
  const rewards = all.map(({ id, removeSample, reward }): [string, number | null] => [
    id,
    removeSample ? null : reward,
  ])
  return gradeOf(
    Object.fromEntries(rewards),
    kept.map(({ id }) => id),
    meanMetrics(kept.map(({ metrics }) => metrics)),
  )
}
