import type { ItemEvent } from '../analysis/records/item-event.ts'
import type { DatasetRow } from '../dataset/dataset-row.ts'
import type { EvaluationStore } from '../store/write/run-store.ts'
import type { RunNames } from './evaluation-state.ts'
import type { ItemRunner } from './items/item-runner.ts'
import type { Scorer } from './items/scorer.ts'

/** A model, and how its items are run. */
export interface EvaluatedModel {
  /** Its name in files and reports. */
  readonly name: string
  readonly runner: ItemRunner
  /** The state of the policy, as `watchPolicy` and `patientPolicy` return it. */
  readonly policy?: PolicyHealth
}

/** Whether a policy answers, and whether it limits the rate of calls. */
export interface PolicyHealth {
  /** Why no model call can succeed, e.g. a wrong key; then no further item is started. Null if none. */
  readonly failure: string | null
  /**
   * Calls that were answered 429 so far. Each new one reduces the number of concurrent items, down to one;
   * without new ones it increases again. Default: unknown.
   */
  readonly refusals?: number
  /**
   * Whether it answers a harmless call now. Asked when rollouts were lost to it, which have failed if it does, and
   * otherwise stay pending. Default: it does when it has answered a rollout of this start.
   */
  readonly answers?: (signal: AbortSignal) => Promise<boolean>
}

/** Passed after every item that has ended. */
export interface EvaluationProgress {
  /** Items that have ended, including those of earlier starts. */
  readonly done: number
  readonly total: number
  readonly item: ItemEvent
  /** The maximum number of concurrent items: now, and without rate limits. */
  readonly inFlight: { readonly limit: number; readonly max: number }
}

/** Options of `runEvaluation`. */
export interface EvaluationOptions {
  readonly names: RunNames
  /** The selected rows, in order; with a store those of its manifest. */
  readonly rows: readonly DatasetRow[]
  /** The model under evaluation. */
  readonly model: EvaluatedModel
  /** Score every item that succeeds; see `toScorer`. Default: none, only the reward counts. */
  readonly scorers?: readonly Scorer[]
  /** Whether an item without a reward has failed. Default: true without scorers. */
  readonly needsReward?: boolean
  /** Attempts per row. Default: 1. */
  readonly n?: number
  /** Maximum concurrent items. Default: 1; at least `n` with `gradesGroups`. */
  readonly maxInFlight?: number
  /**
   * Whether a GroupGrader grades the attempts at a row together: then they start together, and
   * run again together. Default: false.
   */
  readonly gradesGroups?: boolean
  /** The least reward, or score, of an item that passes. Default: 1. */
  readonly passThreshold?: number
  /**
   * No further item is started when the items of the run, including earlier ones, have cost this much, or
   * when the cost of one is unknown. US dollars. Default: no limit.
   */
  readonly maxCostUsd?: number | undefined
  /**
   * No further item is started when this number of items have failed; below 1 it is a share of all items of
   * the run. False: no limit. Default: stop when the first 20 items have all failed with the same type at
   * the same place, or with the same message.
   */
  readonly failOnError?: number | false | undefined
  /** How a user continues in spite of failures, after `start again` in the reason why it stopped: `, or pass …`. Default: nothing. */
  readonly failureAdvice?: { readonly raise: string; readonly continue: string } | undefined
  /**
   * How long items may be run again because of rate limits while none ends; then no further item is
   * started. Milliseconds. Default: 600,000.
   */
  readonly patienceMs?: number
  /**
   * Cancels all items; the message of its reason becomes `incompleteReason`. For an interrupt, and for a
   * rollout server that has exited.
   */
  readonly signal?: AbortSignal
  /**
   * Stores every item before the result of its rollout is acknowledged. Items that it already has are not
   * run. Default: nothing is stored. The caller closes it.
   */
  readonly store?: EvaluationStore
  /** Which stored items are run again. Default: none. */
  readonly runAgain?: (event: ItemEvent) => boolean
  /** Returns a copy without secrets of data to be stored, printed or returned. Default: no change. */
  readonly redact?: <T>(data: T) => T
  /** Called at each item's end, in the order they end. */
  readonly onItem?: (item: ItemEvent) => void
  /** Called at each item's end, after `onItem`. */
  readonly onProgress?: (progress: EvaluationProgress) => void
}
