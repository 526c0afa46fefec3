import type { ItemEvent } from '../analysis/item-event.ts'
import type { DatasetRow } from '../dataset/dataset-row.ts'
import type { Scorer } from '../scoring/scorer.ts'
import type { RunStore } from '../store/run-store.ts'
import type { RunNames } from './evaluation-result.ts'
import type { ItemRunner } from './item-runner.ts'

/** A model, and how its items are run. */
export interface EvaluatedModel {
  /** The name it goes by in files and reports. */
  readonly name: string
  readonly runner: ItemRunner
  /** What is known of the policy. What `watchPolicy` and `patientPolicy` return has it. */
  readonly policy?: PolicyHealth
}

/** Whether a policy answers, and how fast it may be asked. */
export interface PolicyHealth {
  /**
   * Why no model call can succeed, e.g. a wrong key; null while that is not known. When it is, no
   * further item is started.
   */
  readonly failure: string | null
  /**
   * Calls that were answered 429 so far. With each of them fewer items are run at once, down to one;
   * without any, more again. Default: not known.
   */
  readonly refusals?: number
}

/** Passed after every item that has ended. */
export interface EvaluationProgress {
  /** Items that have ended, those of earlier starts included. */
  readonly done: number
  readonly total: number
  readonly item: ItemEvent
  /** How many items may run at once: now, and at most. */
  readonly inFlight: { readonly limit: number; readonly most: number }
}

/** Options of `runEvaluation`. */
export interface EvaluationOptions {
  readonly names: RunNames
  /** The selected rows, in order; with a store those of its manifest. */
  readonly rows: readonly DatasetRow[]
  /** The model under evaluation. */
  readonly model: EvaluatedModel
  /** Runs every item a second time, for comparison. Default: none. */
  readonly baseline?: EvaluatedModel
  /** Score every item that succeeds; see `toScorer`. Default: none, the reward is all there is. */
  readonly scorers?: readonly Scorer[]
  /** Whether an item without a reward has failed. Default: true without scorers. */
  readonly needsReward?: boolean
  /** Attempts per row and model. Default: 1. */
  readonly n?: number
  /** How many items may run at once. Default: 1; `n` at least with `gradesGroups`. */
  readonly maxInFlight?: number
  /**
   * Whether the attempts of a model at a row are graded together, by a GroupGrader: they are started
   * together then, and all of them are run again when one is. Default: false.
   */
  readonly gradesGroups?: boolean
  /** The least reward, or score, of an item that passes. Default: 1. */
  readonly passThreshold?: number
  /**
   * No further item is started when those of the run, earlier ones included, have cost so much, or one
   * has cost what is not known. US dollars. Default: any amount.
   */
  readonly maxCostUsd?: number | undefined
  /**
   * No further item is started when so many of the run have failed; below 1 it is a share of all its items.
   * False: however many fail. Default: when the first 20 have all failed with the same type at the same
   * place, or with the same words.
   */
  readonly failOnError?: number | false | undefined
  /**
   * How long items may be run again because of rate limits while none ends. No further item is started
   * then. Milliseconds. Default: 600,000.
   */
  readonly patienceMs?: number
  /**
   * Stops dispatch and cancels what runs; the message of its reason becomes `incompleteReason`.
   * For an interrupt, and for a rollout server that has died.
   */
  readonly signal?: AbortSignal
  /**
   * Keeps every item before its rollout's server is told that its end has arrived. Items that it has
   * already are not run. Default: nothing is kept. The caller closes it.
   */
  readonly store?: RunStore
  /** Which of the items that the store has are run again. Default: none. */
  readonly runAgain?: (event: ItemEvent) => boolean
  /** Gives a copy of what is about to be kept, printed or returned, without secrets. Default: as it is. */
  readonly redact?: <T>(data: T) => T
  /** Called at each item's end, in the order they end. */
  readonly onItem?: (item: ItemEvent) => void
  /** Called at each item's end, after `onItem`. */
  readonly onProgress?: (progress: EvaluationProgress) => void
}
