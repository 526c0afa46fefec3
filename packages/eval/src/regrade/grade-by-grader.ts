import {
  AgentWorkflow,
  LocalBackend,
  requireRolloutContext,
  toRolloutSample,
  type AgentWorkflowContext,
  type Entrypoint,
  type GradingOutcome,
  type RolloutRequest,
  type RolloutSample,
} from '@osmosis/core'

import { meanMetrics } from '../run/kept-item.ts'
import type { GradedSample } from '../store/run-store.ts'
import { failedGrade, gradeOf, type GradeRollout, type RolloutGrade } from './rollout-grade.ts'

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
export function gradeByGrader(options: StoredGrading): GradeRollout {
  const waiting = new Map<string, Readonly<Record<string, GradedSample>>>()

  class StoredSamples extends AgentWorkflow {
    async run({ rolloutId }: AgentWorkflowContext): Promise<void> {
      const rollout = requireRolloutContext('a re-grading')
      for (const [id, sample] of Object.entries(waiting.get(rolloutId) ?? {})) {
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
  return async ({ rolloutId, graded }) => {
    const { label, metadata, samples } = graded
    waiting.set(rolloutId, samples)
    try {
      const request = { ...storedRequest, rolloutId, label, metadata }
      return await gradedBy(backend, { ...request, graderTimeoutSeconds: timeoutSeconds })
    } finally {
      waiting.delete(rolloutId)
    }
  }
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
  if (failure !== null) return failedGrade(failure.category, failure.message)
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
