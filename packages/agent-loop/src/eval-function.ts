import type { ChatMessage } from '@osmosis/core/wire'

/** What an evaluation knows of a run that came to its end. */
export interface EvalInput {
  /** The whole conversation, as the loop completed it, in chat completions form. */
  readonly messages: readonly ChatMessage[]
  /** Text of the last assistant message; empty when it has none. */
  readonly solutionStr: string
  /** The reference answer of the row; null when it has none. */
  readonly groundTruth: string | null
  /** The metadata of the row and its columns beyond those of the dataset format. */
  readonly metadata: Readonly<Record<string, unknown>>
  /** What the loop completed with; null when it gave none. */
  readonly reward: number | null
}

/**
 * Scores a run for `osmosis eval loop`. The score is a finite number; a function that throws, or
 * returns anything else, leaves the run without one.
 */
export type EvalFunction = (input: EvalInput) => number | Promise<number>
