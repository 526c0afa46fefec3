import { DocumentWriter } from './document-writer.ts'
import type { ItemEvent } from './item-event.ts'
import type { RunManifest } from './run-manifest.ts'
import type { RunNote } from './run-note.ts'

/**
 * A run of one model as JSON data: what tables, statistics and filters need, and no transcripts. It
 * holds one array per field, so that 100,000 items stay cheap to send and to keep.
 */
export interface RunDocument {
  readonly name: string
  readonly model: string
  readonly modelTag: 'primary' | 'baseline'
  readonly rollout: string
  readonly dataset: string
  /** ISO 8601, UTC. */
  readonly startedAt: string
  /** Configured per row. */
  readonly attempts: number
  /** The least reward, or score, of an item that passes. */
  readonly threshold: number
  /** Whether a process is at it. */
  readonly running: boolean
  readonly rows: RowColumns
  readonly toolNames: string[]
  readonly errorTypes: string[]
  /** Different uses of tools by a rollout, each flat: tool, calls, errors, tool, calls, errors, … */
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
  /** Calls of the policy that it answered. */
  readonly calls: number[]
  readonly toolCalls: number[]
  readonly toolErrors: number[]
  /** The place of its uses in `toolUses`. */
  readonly toolUse: number[]
  readonly promptTokens: (number | null)[]
  readonly completionTokens: (number | null)[]
  readonly durationMs: number[]
  /** US dollars; null where that is not known. */
  readonly costUsd: (number | null)[]
  /** Calls that ended because there was no room for more tokens. */
  readonly cut: number[]
  /** Calls that did not extend the conversation before them. */
  readonly rewritten: number[]
  /** Seconds after `startedAt`, to a tenth. */
  readonly endedSeconds: number[]
  /** The last text of the policy, or the error. */
  readonly summary: string[]
  /** By name: what the grader measured. */
  readonly metrics: Record<string, (number | null)[]>
  /** By name: what eval functions gave. */
  readonly scores: Record<string, (number | null)[]>
}

/** What {@link toRunDocument} cannot see in the files of a run. */
export interface RunDocumentOptions {
  /** Whose items. Default: those of the model under evaluation. */
  readonly modelTag?: 'primary' | 'baseline'
  /** Default: false. */
  readonly running?: boolean
}

/** The document of a run. The last event of an item counts. */
export function toRunDocument(
  manifest: RunManifest,
  events: Iterable<ItemEvent>,
  notes: Iterable<RunNote> = [],
  { modelTag = 'primary', running = false }: RunDocumentOptions = {},
): RunDocument {
  const { model, dataset, code } = manifest.inputs
  const document: RunDocument = {
    name: manifest.run_name,
    model: modelTag === 'primary' ? model.name : (model.baseline ?? model.name),
    modelTag,
    rollout: code.rollout,
    dataset: dataset.name,
    startedAt: manifest.created_at,
    attempts: manifest.n,
    threshold: manifest.pass_threshold,
    running,
    rows: { row: [], key: [], facets: {} },
    toolNames: [],
    errorTypes: [],
    toolUses: [],
    columns: emptyColumns(),
    notes: [...notes].filter(({ model_tag: tag = 'primary' }) => tag === modelTag),
  }
  const writer = DocumentWriter.of(document)
  for (const { source_row: row, key, facets } of manifest.rows) writer.addRow(row, key, facets)
  for (const event of events) writer.put(event)
  return document
}

/**
 * Adds what ended since, and replaces items that ended again. Events of another model are passed over.
 * Where a {@link RunTable} shows the document, use its `append`.
 *
 * @returns the places of the items that were added or replaced
 */
export function appendEvents(document: RunDocument, events: Iterable<ItemEvent>): number[] {
  const writer = DocumentWriter.of(document)
  const places = new Set<number>()
  for (const event of events) {
    const place = writer.put(event)
    if (place !== null) places.add(place)
  }
  return [...places]
}

/**
 * The place of an item in the columns of a document.
 *
 * @param row - the position of its row in the dataset, from 0
 * @param attempt - from 0
 */
export function findItem(document: RunDocument, row: number, attempt: number): number | undefined {
  return DocumentWriter.of(document).find(row, attempt)
}

function emptyColumns(): ItemColumns {
  return {
    row: [],
    attempt: [],
    status: [],
    reward: [],
    error: [],
    calls: [],
    toolCalls: [],
    toolErrors: [],
    toolUse: [],
    promptTokens: [],
    completionTokens: [],
    durationMs: [],
    costUsd: [],
    cut: [],
    rewritten: [],
    endedSeconds: [],
    summary: [],
    metrics: {},
    scores: {},
  }
}
