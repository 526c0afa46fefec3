/** One row of a dataset, ready to become a rollout. */
export interface DatasetRow {
  /** Position in the file, from 0; blank lines are not counted. */
  readonly sourceRowIndex: number
  /** The system prompt, if any, then the user prompt, if any. */
  readonly initialMessages: readonly {
    readonly role: 'system' | 'user'
    readonly content: string
  }[]
  /** The reference answer; null when the row has none. */
  readonly label: string | null
  /** Null when the row has none, or an empty one. */
  readonly metadata: Readonly<Record<string, unknown>> | null
}
