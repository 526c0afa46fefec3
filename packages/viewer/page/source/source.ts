import type { RunNote } from '@osmosis/eval/analysis'

import type {
  ItemName,
  LiveUpdate,
  RunAnswer,
  RunListing,
  TranscriptAnswer,
} from '../../src/wire.ts'

/** A report does not hold the transcript. */
export interface OmittedTranscript {
  readonly state: 'omitted'
}

/** Where the data comes from: the server of this page, or the page itself. */
export interface Source {
  readonly kind: 'server' | 'report'
  /** The one run that there is: it is shown at once, and there is no list. */
  readonly only?: string | undefined
  /** How many transcripts there are of a run. Undefined where there are all. */
  held?: (run: string) => number
  runs(): Promise<readonly RunListing[]>
  run(name: string): Promise<RunAnswer>
  transcript(run: string, item: ItemName): Promise<TranscriptAnswer | OmittedTranscript>
  /** Items in whose transcripts all the words are, which are in lower case. */
  search(run: string, words: readonly string[], signal: AbortSignal): Promise<readonly ItemName[]>
  /** Undefined where nothing can be written. */
  note?(run: string, note: Omit<RunNote, 'at' | 'model_tag'>): Promise<RunNote>
  /**
   * Calls with what happens to a run from `onOpen` on, which comes again after a pause; read the run
   * then. Returns what ends it. Undefined where nothing happens.
   */
  follow?(run: string, onOpen: () => void, onUpdate: (update: LiveUpdate) => void): () => void
}
