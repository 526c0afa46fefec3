import type { RubricScore } from '@osmosis/models'

/** An answer that a judge scores. */
export interface AnswerRow {
  /** In a file its id, else its line; in a run the name of its rollout. */
  readonly label: string
  readonly answer: string
  readonly originalInput: string | null
  readonly groundTruth: string | null
  /** Without the human verdict. */
  readonly metadata: Readonly<Record<string, unknown>> | null
  /** The human verdict; null without one. */
  readonly people: boolean | null
}

/** An answer and its score. */
export interface JudgedRow {
  readonly row: AnswerRow
  /** Null when the judge gave no score. */
  readonly scored: RubricScore | null
  readonly error: string | null
}

/** Where answers come from. */
export interface AnswerSource {
  readonly answers: readonly AnswerRow[]
  /** The least score that passes. */
  readonly passThreshold: number
  /** The words of the command that shows an answer, before its label. Default: there is none. */
  readonly show?: readonly string[]
  /** Stores the scores, and returns the words of the command that shows them. Default: they are not stored. */
  readonly store?: (rows: readonly JudgedRow[]) => Promise<readonly string[]>
}

const words = new Map<string, boolean>([
  ...['pass', 'passed', 'true', 'yes', 'good', 'correct'].map((word) => [word, true] as const),
  ...['fail', 'failed', 'false', 'no', 'bad', 'wrong'].map((word) => [word, false] as const),
])

/** Whether a person's word for a verdict is a pass; null for any other text. */
export function verdictWord(word: string): boolean | null {
  return words.get(word.trim().toLowerCase()) ?? null
}
