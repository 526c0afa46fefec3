import type { RowHistory, RunNote } from '@osmosis/eval/analysis'

import type {
  ItemEnding,
  ItemName,
  LiveUpdate,
  RegradeAnswer,
  RunAnswer,
  RunListing,
  TrainingAnswer,
  TrainingListing,
  TranscriptAnswer,
} from '../../src/wire.ts'

/** A report does not hold the transcript. */
export interface OmittedTranscript {
  readonly state: 'omitted'
  /** Null when the report has nothing of it but its columns. */
  readonly ending: ItemEnding | null
}

/** Whether the server answers: `unreachable` when it does not, `refused` when it wants the token of another link. */
export type Connection = 'live' | 'unreachable' | 'refused'

/** Where the data comes from: the server of this page, or the page itself. */
export interface Source {
  readonly kind: 'server' | 'report'
  /** The only run, which is shown without a list. */
  readonly only?: string | undefined
  /** The number of transcripts. Undefined where all are available. */
  readonly held?: number
  runs(): Promise<readonly RunListing[]>
  run(name: string): Promise<RunAnswer>
  transcript(run: string, item: ItemName): Promise<TranscriptAnswer | OmittedTranscript>
  /** Items whose transcripts contain all the words, which are in lower case. */
  search(run: string, words: readonly string[], signal: AbortSignal): Promise<readonly ItemName[]>
  /** Undefined for a report, as are the two below. */
  trainings?(): Promise<readonly TrainingListing[]>
  training?(name: string): Promise<TrainingAnswer>
  trainingRows?(name: string): Promise<readonly RowHistory[]>
  /** Grades the stored samples of a run again. Undefined for a report. */
  regrade?(run: string): Promise<RegradeAnswer>
  /** Undefined where nothing can be written. */
  note?(run: string, note: Omit<RunNote, 'at'>): Promise<RunNote>
  /** Calls `onChange` with each change of the connection. Returns a function that ends this. Undefined for a report. */
  watch?(onChange: (connection: Connection) => void): () => void
  /**
   * Follows a run. Read the run at each `onOpen`, which is called again after a reconnect, and also when the server
   * refuses, because reading then says why. Returns a function that stops this. Undefined for a report.
   */
  follow?(run: string, onOpen: () => void, onUpdate: (update: LiveUpdate) => void): () => void
}
