import { isOsmosisError, type RolloutGroup } from '@osmosis/core'
import type { RolloutFailure } from '@osmosis/protocol'

import { type ItemEvent, itemKey } from '../analysis/records/item-event.ts'
import type { RunManifest } from '../analysis/records/run-manifest.ts'
import { toSummary } from '../analysis/trajectory/trajectory-facts.ts'
import type { Grade } from '../store/side-files.ts'
import type { GradedRollout } from '../store/write/run-store.ts'

/** The grade of a rollout. */
export type RolloutGrade = Pick<
  Grade,
  'reward' | 'samples' | 'metrics' | 'skipped' | 'error' | 'error_type'
> & {
  /** Why no other rollout can be graded either: a judge refuses every request. */
  readonly lasting?: string
}

/** A stored rollout. */
export interface StoredRollout {
  readonly rolloutId: string
  readonly graded: GradedRollout
  /** The current rewards of the samples, by sample id. */
  readonly rewards: Readonly<Record<string, number | null>>
  readonly group: Required<RolloutGroup>
  /** Why it has no samples: a group grader sees it among the others. Default: it has samples. */
  readonly failure?: Pick<RolloutFailure, 'category' | 'message'>
}

/**
 * Grades a stored rollout, or the rollouts of a model at a row where groups are graded, and returns a grade
 * for each. An error in user code is a grade with an `error`.
 */
export type GradeRollouts = (rollouts: readonly StoredRollout[]) => Promise<readonly RolloutGrade[]>

/** @param inTraining - ids of the samples in training; the reward of the rollout is their mean */
export function gradeOf(
  rewards: Readonly<Record<string, number | null>>,
  inTraining: readonly string[],
  metrics: Readonly<Record<string, number>>,
): RolloutGrade {
  if (inTraining.length === 0) return { reward: null, skipped: true, samples: rewards, error: null }
  const sum = inTraining.reduce((total, id) => total + (rewards[id] ?? 0), 0)
  const hasMetrics = Object.keys(metrics).length > 0
  return {
    reward: sum / inTraining.length,
    samples: rewards,
    ...(hasMetrics ? { metrics } : {}),
    error: null,
  }
}

/** @param cause - what the grader threw */
export function failedGrade(type: string, message: string, cause: unknown): RolloutGrade {
  const refusal = lastingRefusal(cause)
  const lasting = refusal === undefined ? {} : { lasting: refusal }
  return { reward: null, error: message, error_type: type, ...lasting }
}

/** Wrong key, no credit left, unknown address or model. */
const refusals: ReadonlySet<number | undefined> = new Set([401, 402, 404])

/** Graders may wrap the error of a judge. */
function lastingRefusal(thrown: unknown): string | undefined {
  let link = thrown
  for (let depth = 0; link instanceof Error && depth < 8; depth += 1) {
    if (isOsmosisError(link) && link.code === 'judge_failed' && refusals.has(link.status)) {
      return link.message
    }
    link = link.cause
  }
  return undefined
}

/**
 * Whether an item reached its grader, and so can be graded again. An agent loop that failed did not, although
 * its messages are stored.
 */
export function isGradable(event: ItemEvent, { inputs }: Pick<RunManifest, 'inputs'>): boolean {
  if (event.sample_place === null) return false
  const { kind } = inputs.code
  return kind === 'workflow' || event.status !== 'failed' || event.error_type === 'missing_reward'
}

/**
 * The events of a run with the rewards of a re-grading. Items that failed before they could be graded are
 * unchanged; other items that the re-grading has not graded are omitted. An item that was run again since is one of them: its
 * grade is that of another rollout.
 */
export function gradedEvents(
  manifest: RunManifest,
  events: Iterable<ItemEvent>,
  grades: ReadonlyMap<string, Grade>,
): ItemEvent[] {
  return [...events].flatMap((event) => {
    const grade = grades.get(itemKey(event))
    if (grade?.rollout_id === event.rollout_id) return [gradedEvent(event, grade)]
    return isGradable(event, manifest) ? [] : [event]
  })
}

/** An event with the rewards of a grade instead of its own. */
function gradedEvent(event: ItemEvent, grade: Grade): ItemEvent {
  const { reward, skipped, error, samples = {}, metrics = {} } = grade
  const { scores: _scores, score_errors: _errors, ...rest } = event
  const graded = { ...rest, reward, samples, metrics }
  if (error !== null) {
    const type = grade.error_type ?? 'grader_failed'
    const summary = toSummary(error)
    return { ...graded, status: 'failed', error_type: type, error_message: error, summary }
  }
  return {
    ...graded,
    status: skipped ? 'skipped' : 'success',
    error_type: null,
    error_message: null,
    // The summary was the error, which no longer applies.
    summary: event.status === 'failed' ? '' : event.summary,
  }
}
