import {
  getLastAssistantContent,
  isRewardFunction,
  type EvalFunction,
  type EvalInput,
} from '@osmosis/agent-loop'
import type { ChatMessage } from '@osmosis/core/wire'
import type { DatasetRow } from '@osmosis/eval'

import { rowFields } from '../row-fields.ts'
import type { RowResult } from '../row-runner.ts'

/** Gives each run that came to its end a score. */
export interface Scorer {
  /** What it is called in results. */
  readonly name: string
  /** Returns, or resolves with, whatever user code makes of it: that is to be checked. */
  readonly score: (input: EvalInput) => unknown
}

/** A scorer that calls a function of the user, in the form that it was written for. */
export function toScorer(name: string, evaluate: (...args: never[]) => unknown): Scorer {
  if (!isRewardFunction(evaluate)) return { name, score: evaluate as EvalFunction }
  return {
    name,
    score: ({ solutionStr, groundTruth, metadata }) =>
      // A row without a ground truth is refused there, by name.
      evaluate(solutionStr, groundTruth as string, metadata),
  }
}

/** Takes the reward that the loop completed with. */
export const loopReward: Scorer = {
  name: 'reward',
  score: ({ reward }) => {
    if (reward !== null) return reward
    throw new Error('the loop completed without a reward; pass --eval-fn to score its runs')
  },
}

/** What a scorer is told. Made anew for each: one that changes it is heard by nobody else. */
export function toEvalInput(row: DatasetRow, result: RowResult): EvalInput {
  const messages = structuredClone(result.finalMessages) as unknown as ChatMessage[]
  return {
    messages,
    solutionStr: getLastAssistantContent(messages) ?? '',
    groundTruth: row.label,
    metadata: structuredClone(rowFields(row)),
    reward: result.reward,
  }
}
