import { errorCategory, errorMessage, OsmosisError } from '@osmosis/core'
import { startTimer, untilAborted } from '@osmosis/core/http'
import type { ChatMessage } from '@osmosis/core/policy'

import type { RunInputs } from '../analysis/records/run-manifest.ts'
import { storedAnswer } from '../run/items/item-record.ts'
import { lastAnswer } from '../run/items/loop-runner.ts'
import { checkedScore, toEvalInput, type Scorer } from '../run/items/scorer.ts'
import type { GradedSample } from '../store/write/run-store.ts'
import {
  failedGrade,
  gradeOf,
  type GradeRollouts,
  type RolloutGrade,
  type StoredRollout,
} from './rollout-grade.ts'

/** Options of {@link gradeByFunction}. */
export interface FunctionGradingOptions {
  readonly kind: RunInputs['code']['kind']
  /** Deadline for one sample. Seconds; null is unbounded. */
  readonly timeoutSeconds: number | null
}

/** Grades stored samples by an eval function: its score of each sample in training is the reward. */
export function gradeByFunction(scorer: Scorer, options: FunctionGradingOptions): GradeRollouts {
  const grade = async (rollout: StoredRollout): Promise<RolloutGrade> => {
    const samples = Object.entries(rollout.graded.samples)
    const inTraining = samples.filter(([, { removed }]) => !removed)
    try {
      const scores = await Promise.all(
        inTraining.map(async ([id, sample]): Promise<[string, number]> => [
          id,
          await scoreSample(scorer, { rollout, id, sample }, options),
        ]),
      )
      const none = samples.map(([id]): [string, null] => [id, null])
      const rewards = Object.fromEntries([...none, ...scores])
      return gradeOf(
        rewards,
        inTraining.map(([id]) => id),
        {},
      )
    } catch (error) {
      return failedGrade(errorCategory(error), errorMessage(error), error)
    }
  }
  return async (rollouts) => Promise.all(rollouts.map(grade))
}

async function scoreSample(
  scorer: Scorer,
  stored: { readonly rollout: StoredRollout; readonly id: string; readonly sample: GradedSample },
  { kind, timeoutSeconds }: FunctionGradingOptions,
): Promise<number> {
  const { graded, rewards } = stored.rollout
  const { messages } = stored.sample
  const input = toEvalInput(
    { label: graded.label, metadata: graded.metadata, otherColumns: graded.other_columns ?? {} },
    {
      messages,
      solutionStr:
        kind === 'workflow'
          ? storedAnswer(graded, stored.id)
          : lastAnswer(messages as ChatMessage[]),
      reward: rewards[stored.id] ?? null,
    },
  )
  const score = async (): Promise<number> => checkedScore(await scorer.score(input))
  if (timeoutSeconds === null) return score()
  const deadline = new AbortController()
  const timer = startTimer(timeoutSeconds * 1000, () => {
    const message = `the eval function exceeded its ${timeoutSeconds}s deadline`
    deadline.abort(new OsmosisError('timeout', message))
  })
  try {
    return await untilAborted(deadline.signal, score)
  } finally {
    timer.clear()
  }
}
