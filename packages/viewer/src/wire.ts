import type { ItemEvent, RunDocument, RunNote, TrainingRecord } from '@osmosis/eval/analysis'
import type { Trajectory } from '@osmosis/protocol/trajectory'

/** The progress of a run. */
export interface RunProgress {
  /** `graded`: a re-grading that has graded only some of the items. */
  readonly state: 'running' | 'finished' | 'incomplete' | 'graded'
  /** Items of this model that have ended, or that were graded. */
  readonly ended: number
  /** Requested items, or items that can be graded. */
  readonly total: number
  /** Why it is incomplete; null when unknown. */
  readonly reason: string | null
}

/** A line of the list of runs. */
export interface RunSummary extends RunProgress {
  readonly name: string
  readonly model: string
  readonly rollout: string
  readonly dataset: string
  /** ISO 8601, UTC. */
  readonly startedAt: string
  /** From the start to the last end of a rollout. Milliseconds. */
  readonly durationMs: number
  /** US dollars; null when unknown. */
  readonly costUsd: number | null
  /** Of its notes. */
  readonly tags: readonly string[]
  readonly rows: number
  readonly attempts: number
  /** Null without any. */
  readonly reward: number | null
  readonly passRate: number | null
  /** The 95 % interval of the pass rate; null when there is none. */
  readonly passInterval: readonly [low: number, high: number] | null
  /** Share of the rows whose attempts differ in reward; null with one attempt per row. */
  readonly signal: number | null
  /** Rollouts that failed. */
  readonly failed: number
  /** Passes that may be reward hacking. */
  readonly suspicious: number
  /** Names of its re-gradings. */
  readonly variants: readonly string[]
}

/** A run or a training that cannot be read. */
interface DamagedListing {
  readonly name: string
  /** Why it cannot be read. */
  readonly problem: string
}

export type RunListing =
  | RunSummary
  | DamagedListing
  /** A large run whose figures come with a later list. */
  | { readonly name: string; readonly isReading: true }

/** A run with all data for tables and figures. */
export interface RunAnswer {
  readonly document: RunDocument
  readonly progress: RunProgress
  readonly variants: readonly string[]
  /** Whether the page can have it graded again. */
  readonly canRegrade?: boolean
}

/** A line of the list of trainings. */
export interface TrainingSummary {
  readonly name: string
  /** `interrupted`: no process trains, and it did not come to its end. */
  readonly state: 'running' | 'finished' | 'interrupted'
  /** Null until a process has started to train. */
  readonly model: string | null
  readonly dataset: string | null
  /** Steps that are done. */
  readonly steps: number
  /** Null when unknown. */
  readonly planned: number | null
  /** Mean reward of each step with rewards. */
  readonly rewards: readonly number[]
  /** Of the last step. */
  readonly alarms: readonly string[]
  /** ISO 8601, UTC; null when unknown. */
  readonly startedAt: string | null
}

export type TrainingListing = TrainingSummary | DamagedListing

/** The rollouts of a training that run now. */
export interface CurrentRun {
  /** The name of the run in its training, e.g. `step-0012`. */
  readonly run: string
  readonly ended: number
  readonly total: number
  /** Over those that ended; null without any reward. */
  readonly reward: number | null
  readonly rewardInterval: readonly [low: number, high: number] | null
  readonly passRate: number | null
  readonly passInterval: readonly [low: number, high: number] | null
}

/** A training with all data for its curves. */
export interface TrainingAnswer {
  readonly name: string
  readonly state: TrainingSummary['state']
  readonly records: readonly TrainingRecord[]
  /** Null when no rollouts run. */
  readonly current: CurrentRun | null
}

/** A run that was graded again, or why it was not. */
export type RegradeAnswer =
  | { readonly state: 'graded'; readonly name: string }
  | { readonly state: 'failed'; readonly problem: string }

/** The changes of a run since the last update. */
export interface LiveUpdate {
  readonly events?: readonly ItemEvent[]
  readonly notes?: readonly RunNote[]
  readonly progress?: RunProgress
  /** The run must be read again: its changes cannot be appended. */
  readonly stale?: true
}

/** The transcript of a rollout, or why it cannot be shown; `silent`: there was no conversation. */
export type TranscriptAnswer = (
  | { readonly state: 'found'; readonly samples: Readonly<Record<string, Trajectory>> }
  | { readonly state: 'silent' | 'missing' | 'damaged' }
) & { readonly ending: ItemEnding }

/** Details of the end of an item that are too long or too rare for a column. */
export interface ItemEnding {
  /** The whole message; null unless it failed. */
  readonly error: string | null
  /** Of an error of user code; null when the log of the run does not have it. */
  readonly stack: string | null
  /** By sample id; null for a sample without a reward. */
  readonly rewards: Readonly<Record<string, number | null>>
  /** Why an eval function gave no score, by its name. */
  readonly scoreErrors: Readonly<Record<string, string>>
  /** What reviewers decided about findings of `eval audit`, by check, e.g. `hacked: it guesses (Ann)`. */
  readonly verdicts: Readonly<Record<string, string>>
}

/** An item by the position of its row in the dataset and its attempt, both from 0. */
export type ItemName = readonly [row: number, attempt: number]

/** The data of a report, inside of its page. */
export interface EmbeddedReport {
  readonly summary: RunSummary
  /** The name that is opened first. */
  readonly first: string
  /** By name, its variants included. */
  readonly runs: Readonly<Record<string, Packed<RunAnswer>>>
  /** Those of the run; re-gradings have the same. */
  readonly transcripts: EmbeddedTranscripts
  /**
   * By the name of the run or re-grading and item: of a re-grading those that differ from the run, of both those with
   * verdicts of reviewers whose transcripts are not in the report.
   */
  readonly endings: Readonly<Record<string, Readonly<Record<string, ItemEnding>>>>
}

/** Transcripts of a run, in pieces of `pieceSize`. */
export interface EmbeddedTranscripts {
  readonly pieceSize: number
  /** `row.attempt` of each transcript, in their order. */
  readonly items: readonly string[]
  readonly pieces: readonly Packed<readonly TranscriptAnswer[]>[]
}

/** JSON, gzipped, in base64. */
export type Packed<T> = string & { readonly packed?: T }
