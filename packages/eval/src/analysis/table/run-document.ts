import type { RunNote } from '../records/item-event.ts'

/**
 * A run of one model as JSON data: what tables, statistics and filters need, without transcripts. It has
 * one array per field, so that 100,000 items stay cheap to send and to hold in memory.
 */
export interface RunDocument {
  readonly name: string
  readonly model: string
  readonly rollout: string
  readonly dataset: string
  /** What it was made with, besides the model, by names for readers. */
  readonly inputs: Readonly<Record<string, string>>
  /** ISO 8601, UTC. */
  readonly startedAt: string
  /** Configured per row. */
  readonly attempts: number
  /** The least reward, or score, of an item that passes. */
  readonly threshold: number
  /** Whether a process is writing to the run. */
  readonly running: boolean
  readonly rows: RowColumns
  readonly toolNames: string[]
  readonly errorTypes: string[]
  /** Distinct lists of versions of the policy in a rollout, one version on a line. */
  readonly versions: string[]
  /** Distinct lists of purposes of model calls in a rollout, one purpose on a line. */
  readonly purposes: string[]
  /** Distinct uses of tools by a rollout, each flat: tool, calls, errors, tool, calls, errors, … */
  readonly toolUses: number[][]
  readonly columns: ItemColumns
  readonly notes: RunNote[]
}

/** The rows of a run, one array per field. */
export interface RowColumns {
  /** Position in the dataset file, from 0. */
  readonly row: number[]
  /** The row in other datasets. */
  readonly key: string[]
  /** How its last message begins, on one line; empty when unknown. */
  readonly question: string[]
  /** By name, e.g. `task`. */
  readonly facets: Record<string, FacetColumn>
}

/** A metadata key by which rows can be grouped. */
export interface FacetColumn {
  readonly values: string[]
  /** For each row the place of its value in `values`; -1 for none. */
  readonly of: number[]
}

/** The items that have ended, in the order in which they first did; one array per field. */
export interface ItemColumns {
  /** Position of the row in the dataset file, from 0. */
  readonly row: number[]
  /** From 0. */
  readonly attempt: number[]
  /** 0 success, 1 failed, 2 skipped. */
  readonly status: number[]
  readonly reward: (number | null)[]
  /** The place of its error type in `errorTypes`; -1 unless failed. */
  readonly error: number[]
  /** Model calls that the policy answered. */
  readonly calls: number[]
  readonly toolCalls: number[]
  readonly toolErrors: number[]
  /** The place of its uses in `toolUses`. */
  readonly toolUse: number[]
  readonly promptTokens: (number | null)[]
  readonly completionTokens: (number | null)[]
  readonly durationMs: number[]
  /** US dollars; null where the cost is unknown. */
  readonly costUsd: (number | null)[]
  /** Calls that reached the token limit. */
  readonly cut: number[]
  /** Calls that did not extend the conversation before them. */
  readonly rewritten: number[]
  /** 1 where a limit ended the rollout, 2 where its framework gave up on the policy, 3 where its last answer has no text. */
  readonly ending: number[]
  /** The place of its list in `versions`. */
  readonly version: number[]
  /** The place of its list in `purposes`. */
  readonly purpose: number[]
  /** Seconds after `startedAt`, to a tenth. */
  readonly endedSeconds: number[]
  /** The last text of the policy, or the error. */
  readonly summary: string[]
  /** By name: metrics of the grader. */
  readonly metrics: Record<string, (number | null)[]>
  /** By name: scores of eval functions. */
  readonly scores: Record<string, (number | null)[]>
}
