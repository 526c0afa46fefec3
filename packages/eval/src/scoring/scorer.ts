import { isRewardFunction, type EvalFunction, type EvalInput } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'

import type { DatasetRow } from '../dataset/dataset-row.ts'
import type { ScorableSample } from '../run/item-runner.ts'

/** Gives each conversation that came to its end a score. */
export interface Scorer {
  /** What it is called in results. */
  readonly name: string
  /** Returns, or resolves to, whatever user code makes of it: that is to be checked. */
  readonly score: (input: EvalInput) => unknown
}

/**
 * A scorer that calls a function of the user in the form it was written for: what `defineReward`
 * made gets texts, everything else an `EvalInput`.
 */
export function toScorer(name: string, evaluate: (...args: never[]) => unknown): Scorer {
  if (!isRewardFunction(evaluate)) return { name, score: evaluate as EvalFunction }
  return {
    name,
    score: ({ solutionStr, groundTruth, metadata }) =>
      // A row without a ground truth is refused there, by name.
      evaluate(solutionStr, groundTruth as string, metadata),
  }
}

/** What a scorer is given. Made again for each: one that changes it changes it for nobody else. */
export function toEvalInput(
  row: Pick<DatasetRow, 'label' | 'metadata' | 'otherColumns'>,
  sample: ScorableSample,
): EvalInput {
  return {
    messages: structuredClone(sample.messages) as ChatMessage[],
    solutionStr: sample.solutionStr,
    groundTruth: row.label,
    metadata: structuredClone({ ...row.otherColumns, ...row.metadata }),
    reward: sample.reward,
  }
}
