import type { ChatMessage } from '../policy/chat-completion.ts'

/** What an evaluation knows of a conversation that came to its end. */
export interface EvalInput {
  /**
   * The whole conversation. An agent loop completes it in chat completions form; a sample of a
   * workflow has the form of its framework.
   */
  readonly messages: readonly ChatMessage[]
  /** Text of the last assistant message; empty when it has none. */
  readonly solutionStr: string
  /** The reference answer of the row; null when it has none. */
  readonly groundTruth: string | null
  /** The metadata of the row and its columns beyond those of the dataset format. */
  readonly metadata: Readonly<Record<string, unknown>>
  /** What the grader, or the loop itself, gave; null when there is none. */
  readonly reward: number | null
}

/**
 * Scores a conversation for `osmosis eval run --eval-fn`. The score is a finite number; a function
 * that throws, or returns anything else, leaves the conversation without one.
 */
export type EvalFunction = (input: EvalInput) => number | Promise<number>
