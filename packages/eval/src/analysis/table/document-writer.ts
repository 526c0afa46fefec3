import type { ItemEvent, RunNote, ToolUse } from '../records/item-event.ts'
import type { RunManifest, RunRow } from '../records/run-manifest.ts'
import type { FacetColumn, ItemColumns, RunDocument } from './run-document.ts'

/** Numbers of `ItemColumns.status`. */
export const statusCodes = { success: 0, failed: 1, skipped: 2 } as const

/** Numbers of `ItemColumns.ending`, by the flag that the item gets. */
export const endingCodes = { none: 0, limited: 1, modelerror: 2, notext: 3 } as const

const writers = new WeakMap<RunDocument, DocumentWriter>()

/**
 * Writes events into the columns of a document. It builds its indexes (items, rows, names) from the
 * document, so it can extend a document that was received over the wire.
 */
export class DocumentWriter {
  readonly #document: RunDocument
  /** Built at the first lookup: a table that is only displayed needs none. */
  #items: Map<number, number> | undefined
  readonly #rows = new Map<number, number>()
  readonly #tools: Names
  readonly #errors: Names
  readonly #versions: Names
  readonly #purposes: Names
  readonly #toolUses = new Map<string, number>()
  readonly #facets = new Map<FacetColumn, Names>()
  readonly #metrics: NamedColumns
  readonly #scores: NamedColumns
  readonly #startedAt: number

  /** The one writer of a document. */
  static of(document: RunDocument): DocumentWriter {
    let writer = writers.get(document)
    if (writer === undefined) {
      writer = new DocumentWriter(document)
      writers.set(document, writer)
    }
    return writer
  }

  private constructor(document: RunDocument) {
    const { rows } = document
    this.#document = document
    this.#startedAt = Date.parse(document.startedAt)
    for (const [place, row] of rows.row.entries()) this.#rows.set(row, place)
    for (const [place, use] of document.toolUses.entries()) this.#toolUses.set(use.join(), place)
    this.#tools = new Names(document.toolNames)
    this.#errors = new Names(document.errorTypes)
    this.#versions = new Names(document.versions)
    this.#purposes = new Names(document.purposes)
    this.#metrics = new NamedColumns(document.columns.metrics)
    this.#scores = new NamedColumns(document.columns.scores)
    for (const facet of Object.values(rows.facets)) {
      this.#facets.set(facet, new Names(facet.values))
    }
  }

  /** The place of an item. */
  find(row: number, attempt: number): number | undefined {
    return this.#places().get(itemKey(row, attempt))
  }

  /** The place of a row. */
  findRow(row: number): number | undefined {
    return this.#rows.get(row)
  }

  addRow({ source_row: row, key, question = '', facets = {} }: RunRow): void {
    if (this.#rows.has(row)) return
    const { rows } = this.#document
    const place = rows.row.length
    this.#rows.set(row, place)
    rows.row.push(row)
    rows.key.push(key)
    rows.question.push(question)
    for (const [name, value] of Object.entries(facets)) {
      const column = this.#facet(name)
      column.of[place] = this.#facets.get(column)?.place(value) ?? -1
    }
    // JSON has no holes.
    for (const { of } of Object.values(rows.facets)) {
      while (of.length <= place) of.push(-1)
    }
  }

  /** Writes an item and returns its place. */
  put(event: ItemEvent): number {
    const { columns } = this.#document
    const { source_row_index: row, run_index: attempt } = event
    this.addRow({ source_row: row, key: event.row_key })
    const key = itemKey(row, attempt)
    const places = this.#places()
    const place = places.get(key) ?? columns.row.length
    places.set(key, place)
    columns.row[place] = row
    columns.attempt[place] = attempt
    columns.status[place] = statusCodes[event.status]
    columns.reward[place] = event.reward
    columns.error[place] = event.status === 'failed' ? this.#errors.place(errorType(event)) : -1
    columns.calls[place] = event.calls
    columns.toolCalls[place] = event.tool_calls
    columns.toolErrors[place] = event.tool_errors
    columns.toolUse[place] = this.#toolUse(event.tools)
    columns.promptTokens[place] = event.prompt_tokens
    columns.completionTokens[place] = event.completion_tokens
    columns.durationMs[place] = event.duration_ms
    columns.costUsd[place] = event.cost_usd
    columns.cut[place] = event.finish['length'] ?? 0
    columns.rewritten[place] = event.rewritten
    columns.ending[place] = endingOf(event)
    columns.version[place] = this.#versions.place((event.versions ?? []).join('\n'))
    columns.purpose[place] = this.#purposes.place((event.purposes ?? ['agent']).join('\n'))
    columns.endedSeconds[place] =
      Math.round((Date.parse(event.ended_at) - this.#startedAt) / 100) / 10
    columns.summary[place] = event.summary
    this.#metrics.put(event.metrics, place)
    this.#scores.put(event.scores ?? {}, place)
    return place
  }

  #places(): Map<number, number> {
    if (this.#items !== undefined) return this.#items
    const { row, attempt } = this.#document.columns
    this.#items = new Map(row.map((at, place) => [itemKey(at, attempt[place] ?? 0), place]))
    return this.#items
  }

  #facet(name: string): FacetColumn {
    const { facets } = this.#document.rows
    const existing = Object.hasOwn(facets, name) ? facets[name] : undefined
    if (existing !== undefined) return existing
    const column: FacetColumn = { values: [], of: this.#document.rows.row.map(() => -1) }
    define(facets, name, column)
    this.#facets.set(column, new Names(column.values))
    return column
  }

  #toolUse(tools: readonly ToolUse[]): number {
    let key = ''
    for (const { name, calls, errors } of tools) {
      key += `${key === '' ? '' : ','}${this.#tools.place(name)},${calls},${errors}`
    }
    let place = this.#toolUses.get(key)
    if (place === undefined) {
      const use = tools.flatMap(({ name, calls, errors }) => [
        this.#tools.place(name),
        calls,
        errors,
      ])
      place = this.#document.toolUses.push(use) - 1
      this.#toolUses.set(key, place)
    }
    return place
  }
}

/** A list of distinct names, and the place of each. */
class Names {
  readonly #list: string[]
  readonly #places: Map<string, number>

  constructor(list: string[]) {
    this.#list = list
    this.#places = new Map(list.map((name, place) => [name, place]))
  }

  place(name: string): number {
    let place = this.#places.get(name)
    if (place === undefined) {
      place = this.#list.push(name) - 1
      this.#places.set(name, place)
    }
    return place
  }
}

/** Columns by name; new names may appear while a run continues. */
class NamedColumns {
  readonly #record: Record<string, (number | null)[]>
  readonly #columns: Map<string, (number | null)[]>

  constructor(record: Record<string, (number | null)[]>) {
    this.#record = record
    this.#columns = new Map(Object.entries(record))
  }

  put(values: Readonly<Record<string, number>>, place: number): void {
    for (const name of Object.keys(values)) {
      if (this.#columns.has(name)) continue
      const column: (number | null)[] = []
      this.#columns.set(name, column)
      define(this.#record, name, column)
    }
    for (const [name, column] of this.#columns) {
      while (column.length < place) column.push(null)
      column[place] = Object.hasOwn(values, name) ? (values[name] ?? null) : null
    }
  }
}

function errorType({ error_type: type }: ItemEvent): string {
  return type ?? 'unknown'
}

/** One number for row and attempt: exact up to 2^33 rows, and much faster than text. */
function itemKey(row: number, attempt: number): number {
  return row * 2 ** 20 + attempt
}

/** Names come from users, who may choose `__proto__`. */
function define<T>(record: Record<string, T>, name: string, value: T): void {
  Object.defineProperty(record, name, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  })
}

/** The document of a run. The last event of an item counts. */
export function toRunDocument(
  manifest: RunManifest,
  events: Iterable<ItemEvent>,
  notes: Iterable<RunNote> = [],
  running = false,
): RunDocument {
  const { model, dataset, code } = manifest.inputs
  const document: RunDocument = {
    name: manifest.run_name,
    model: model.name,
    rollout: code.rollout,
    dataset: dataset.name,
    inputs: describeInputs(manifest),
    startedAt: manifest.created_at,
    attempts: manifest.n,
    threshold: manifest.pass_threshold,
    running,
    rows: { row: [], key: [], question: [], facets: {} },
    toolNames: [],
    errorTypes: [],
    versions: [],
    purposes: [],
    toolUses: [],
    columns: emptyColumns(code.scorers),
    notes: [...notes],
  }
  const writer = DocumentWriter.of(document)
  for (const row of manifest.rows) writer.addRow(row)
  for (const event of events) writer.put(event)
  return document
}

/**
 * Adds new items and replaces items that ended again. For the document of a {@link RunTable}, use its
 * `append`.
 *
 * @returns the places of the items that were added or replaced
 */
export function appendEvents(document: RunDocument, events: Iterable<ItemEvent>): number[] {
  const writer = DocumentWriter.of(document)
  return [...new Set(Array.from(events, (event) => writer.put(event)))]
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

/** @param scorers - their columns have the order of the run, whichever score comes first */
function emptyColumns(scorers: readonly string[]): ItemColumns {
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
    ending: [],
    version: [],
    purpose: [],
    endedSeconds: [],
    summary: [],
    metrics: {},
    scores: Object.fromEntries(scorers.map((name) => [name, []])),
  }
}

/** What ended an item, as in the column `ending`; a failure has its error instead. */
function endingOf({ status, limit, model_error: modelError, no_text: noText }: ItemEvent): number {
  if (limit !== undefined) return endingCodes.limited
  if (modelError !== undefined) return endingCodes.modelerror
  return noText === true && status !== 'failed' ? endingCodes.notext : endingCodes.none
}

/** What a run was made with, besides its models, by names for readers. */
function describeInputs(manifest: RunManifest): Readonly<Record<string, string>> {
  const { inputs, pass_threshold: threshold, provenance } = manifest
  const { model, dataset, code, workflow = {}, env, timeouts } = inputs
  const { commit, dirty } = provenance.git ?? {}
  const { digests = { code: code.sha256 } } = provenance
  const found: Record<string, unknown> = {
    endpoint: model.base_url,
    ...prefixed('', model.params),
    dataset: dataset.name,
    'contents of the dataset': dataset.sha256.slice(0, 8),
    ...prefixed('column: ', dataset.columns ?? {}),
    rollout: code.rollout,
    ...shortened(digests),
    commit: commit && `${commit.slice(0, 8)}${dirty === true ? ' and changes' : ''}`,
    ...prefixed('config: ', workflow),
    ...prefixed('$', env),
    'time limit of the workflow': timeouts.agent_seconds,
    'time limit of the grader': timeouts.grader_seconds,
    'maximum turns': timeouts.max_turns,
    'pass threshold': threshold,
    'version of Osmosis': provenance.sdk_version,
    'Node.js': provenance.node_version,
  }
  const known = Object.entries(found).filter(([, value]) => value !== null && value !== undefined)
  return Object.fromEntries(
    known.map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )
}

function shortened(digests: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(digests).map(([name, digest]) => [name, digest.slice(0, 8)])
  return Object.fromEntries(entries) as Record<string, string>
}

function prefixed(prefix: string, fields: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [prefix + name, value]))
}
