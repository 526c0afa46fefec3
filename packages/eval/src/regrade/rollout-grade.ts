import { isOsmosisError, type RolloutGroup } from '@osmosis/core'
import type { RolloutFailure } from '@osmosis/runtime'

import type { GradedRollout } from '../store/run-store.ts'
import type { Grade } from '../store/side-files.ts'

/** What a grader makes of a rollout. */
export type RolloutGrade = Pick<
  Grade,
  'reward' | 'samples' | 'metrics' | 'skipped' | 'error' | 'error_type'
> & {
  /** Why no other rollout can be graded either: a judge refuses whatever it is asked. */
  readonly lasting?: string
}

/** A rollout as it was stored. */
export interface StoredRollout {
  readonly rolloutId: string
  readonly graded: GradedRollout
  /** The rewards that the samples have, by sample id. */
  readonly rewards: Readonly<Record<string, number | null>>
  /** Which attempt at which row it is. */
  readonly group: Required<RolloutGroup>
  /** Why it has no samples: it is shown to a grader of groups beside the others. Default: it has. */
  readonly failure?: Pick<RolloutFailure, 'category' | 'message'>
}

/**
 * Grades stored rollouts, and gives a grade for each: a single one, or those of a model at a row where
 * groups are graded. What goes wrong in user code is a grade with an `error`.
 */
export type GradeRollouts = (rollouts: readonly StoredRollout[]) => Promise<readonly RolloutGrade[]>

/** The grade of a rollout of which these samples were kept, each with its reward. */
export function gradeOf(
  rewards: Readonly<Record<string, number | null>>,
  kept: readonly string[],
  metrics: Readonly<Record<string, number>>,
): RolloutGrade {
  if (kept.length === 0) return { reward: null, skipped: true, samples: rewards, error: null }
  const sum = kept.reduce((total, id) => total + (rewards[id] ?? 0), 0)
  const hasMetrics = Object.keys(metrics).length > 0
  return {
    reward: sum / kept.length,
    samples: rewards,
    ...(hasMetrics ? { metrics } : {}),
    error: null,
  }
}

/**
 * The grade of a rollout for which there is none.
 *
 * @param cause - what the grader threw
 */
export function failedGrade(type: string, message: string, cause: unknown): RolloutGrade {
  const refusal = lastingRefusal(cause)
  const lasting = refusal === undefined ? {} : { lasting: refusal }
  return { reward: null, error: message, error_type: type, ...lasting }
}

/** Wrong key, nothing left to spend, unknown address or model. */
const refusals: ReadonlySet<number | undefined> = new Set([401, 402, 404])

/** Graders wrap what a judge threw. */
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
