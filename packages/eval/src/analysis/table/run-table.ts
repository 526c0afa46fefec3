import type { ItemEvent, RunNote } from '../records/item-event.ts'
import {
  chooseMeasure,
  describeAttempts,
  type GroupKind,
  isCounted,
  isPass,
  type RowAttempts,
} from './attempts.ts'
import { appendEvents, DocumentWriter } from './document-writer.ts'
import {
  findFlags,
  type FlaggedItems,
  type ItemFlag,
  flagBits,
  itemFlags,
  reasonsIn,
  type SuspicionReason,
} from './item-flags.ts'
import type { RunDocument } from './run-document.ts'

/** The attempts at one row. */
export interface RowGroup extends RowAttempts {
  /** Position in the dataset file, from 0. */
  readonly row: number
  /** The row in other datasets. */
  readonly key: string
  /** Its place in the document's rows. */
  readonly place: number
  /** Places of its items, by attempt. */
  readonly items: readonly number[]
}

/** Settings of a {@link RunTable}. */
export interface RunTableOptions {
  /**
   * The value of an item: `reward`, or the name of an eval function. Default: the reward; in a run that has
   * scores but no rewards, the first score.
   */
  readonly measure?: string
}

type MutableGroup = { -readonly [K in keyof RowGroup]: RowGroup[K] } & { items: number[] }

/**
 * A run with what is derived from it once: rows as groups of attempts, passes and flags. An item is
 * identified by its place in the columns of the document.
 */
export class RunTable {
  readonly document: RunDocument
  /** Incremented by each change. */
  revision = 0
  readonly #writer: DocumentWriter
  readonly #measure: string | undefined
  #measured: string | null = null
  /** By the place of the row in the document. */
  readonly #byRow: (MutableGroup | undefined)[] = []
  #groups: readonly RowGroup[] = []
  #groupOf: RowGroup[] = []
  #passed = new Uint8Array()
  #flags: FlaggedItems = { bits: new Uint16Array(), suspicions: new Uint8Array() }
  readonly #derived = new Map<string, unknown>()

  /** Takes ownership of the document: {@link RunTable.append} writes into it. */
  constructor(document: RunDocument, { measure }: RunTableOptions = {}) {
    this.document = document
    this.#measure = measure
    this.#writer = DocumentWriter.of(document)
    this.#take(document.columns.row.keys())
  }

  /** Items that have ended. */
  get size(): number {
    return this.document.columns.row.length
  }

  /** `reward`, or the name of the eval function that gives the values. */
  get measure(): string {
    if (this.#measure !== undefined) return this.#measure
    return this.derive('measure', () =>
      chooseMeasure(Object.keys(this.document.columns.scores), (measure) =>
        this.#valuesBy(measure).some((value, item) => value !== null && this.counts(item)),
      ),
    )
  }

  /** The value of each item, as named by {@link RunTable.measure}; null for none. */
  get values(): readonly (number | null)[] {
    return this.#valuesBy(this.measure)
  }

  /** Rows with an item, by their position in the dataset. */
  get groups(): readonly RowGroup[] {
    return this.#groups
  }

  value(item: number): number | null {
    return this.values[item] ?? null
  }

  /** Whether its value reaches the threshold; false without one. */
  passed(item: number): boolean {
    return this.#passed[item] === 1
  }

  /** Whether the item is included in figures: false if all its samples were removed from training. */
  counts(item: number): boolean {
    return isCounted(this.document.columns.status[item])
  }

  /** The items that are included in figures. */
  get counted(): readonly number[] {
    const items = this.document.columns.row.keys()
    return this.derive('counted', () => [...items].filter((item) => this.counts(item)))
  }

  has(item: number, flag: ItemFlag): boolean {
    return ((this.#flags.bits[item] ?? 0) & flagBits[flag]) !== 0
  }

  /** The worst first. */
  flags(item: number): ItemFlag[] {
    const bits = this.#flags.bits[item] ?? 0
    return itemFlags.filter((flag) => (bits & flagBits[flag]) !== 0)
  }

  /** Why a pass is suspicious; empty for other items. */
  suspicions(item: number): SuspicionReason[] {
    return reasonsIn(this.#flags.suspicions[item] ?? 0)
  }

  /** The number of items with a flag. */
  count(flag: ItemFlag): number {
    const bit = flagBits[flag]
    let count = 0
    for (const bits of this.#flags.bits) if ((bits & bit) !== 0) count += 1
    return count
  }

  /** The row of an item. */
  group(item: number): RowGroup {
    const group = this.#groupOf[item]
    if (group === undefined) throw new RangeError(`There is no item ${item} of ${this.size}.`)
    return group
  }

  /** A row by its position in the dataset; undefined when none of its items has ended. */
  findGroup(row: number): RowGroup | undefined {
    return this.#byRow[this.#writer.findRow(row) ?? -1]
  }

  /** An item by the position of its row in the dataset, and its attempt, both from 0. */
  find(row: number, attempt: number): number | undefined {
    return this.#writer.find(row, attempt)
  }

  /** The number of rows of each kind, without rows of which too few attempts have ended. */
  kinds(): Record<GroupKind, number> {
    const kinds = { never: 0, signal: 0, flat: 0, always: 0 }
    const needed = Math.min(2, this.document.attempts)
    for (const { kind, ended } of this.groups) if (ended >= needed) kinds[kind] += 1
    return kinds
  }

  /** The facets that a row has, by name. */
  facets({ place }: RowGroup): Record<string, string> {
    const { facets } = this.document.rows
    return Object.fromEntries(
      Object.entries(facets).flatMap(([name, { values, of }]) => {
        const value = values[of[place] ?? -1]
        return value === undefined ? [] : [[name, value]]
      }),
    )
  }

  /** The type of its error; null unless it failed. */
  errorType(item: number): string | null {
    return this.document.errorTypes[this.document.columns.error[item] ?? -1] ?? null
  }

  /** The latest note about an item; undefined for none. */
  note(item: number): RunNote | undefined {
    return this.#notes().get(item)
  }

  /** The distinct tags of notes, sorted. */
  tags(): string[] {
    const tags = [...this.#notes().values()].flatMap(({ tag }) => (isBlank(tag) ? [] : [tag]))
    return [...new Set(tags)].toSorted()
  }

  addNote(note: RunNote): void {
    this.document.notes.push(note)
    this.#changed()
  }

  /**
   * Adds new items and replaces items that ended again. Events of another model are ignored.
   *
   * @returns the places of the items that were added or replaced
   */
  append(events: Iterable<ItemEvent>): number[] {
    const places = appendEvents(this.document, events)
    if (places.length > 0) this.#take(places)
    return places
  }

  /** Caches what `compute` returns under a key until the next change. */
  derive<T>(key: string, compute: () => T): T {
    if (!this.#derived.has(key)) this.#derived.set(key, compute())
    return this.#derived.get(key) as T
  }

  #notes(): Map<number, RunNote> {
    return this.derive('notes', () => {
      const notes = new Map<number, RunNote>()
      for (const note of this.document.notes) {
        const item = this.find(note.source_row_index, note.run_index)
        if (item === undefined) continue
        if (isBlank(note.tag) && isBlank(note.text)) notes.delete(item)
        else notes.set(item, note)
      }
      return notes
    })
  }

  #changed(): void {
    this.revision += 1
    this.#derived.clear()
  }

  #take(places: Iterable<number>): void {
    this.#changed()
    const touched = new Set<MutableGroup>()
    for (const item of places) touched.add(this.#place(item))
    const { threshold } = this.document
    const { values, measure } = this
    this.#passed = new Uint8Array(this.size)
    for (let item = 0; item < this.#passed.length; item++) {
      if (this.counts(item) && isPass(values[item] ?? null, threshold)) this.#passed[item] = 1
    }
    const groups = this.#byRow.filter((group) => group !== undefined)
    // The first reward of a run that had only scores changes the measure of all rows.
    for (const group of this.#measured === measure ? touched : groups) this.#describe(group)
    this.#measured = measure
    this.#groups = groups.toSorted((a, b) => a.row - b.row)
    this.#flags = findFlags(this.document, this.#passed)
  }

  /** Puts an item into the group of its row. */
  #place(item: number): MutableGroup {
    const { columns, rows } = this.document
    const row = columns.row[item] ?? -1
    const place = this.#writer.findRow(row) ?? -1
    let group = this.#byRow[place]
    if (group === undefined) {
      group = newGroup(row, rows.key[place] ?? '', place)
      this.#byRow[place] = group
    }
    if (this.#groupOf[item] === undefined) {
      this.#groupOf[item] = group
      group.items.push(item)
    }
    return group
  }

  #describe(group: MutableGroup): void {
    const { columns } = this.document
    const { values } = this
    group.items.sort((a, b) => (columns.attempt[a] ?? 0) - (columns.attempt[b] ?? 0))
    const counted = group.items.filter((item) => this.counts(item))
    const attempts = counted.map((item) => values[item] ?? null)
    Object.assign(group, describeAttempts(attempts, this.document.threshold))
  }

  #valuesBy(measure: string): readonly (number | null)[] {
    const { reward, scores } = this.document.columns
    return measure === 'reward' ? reward : (scores[measure] ?? [])
  }
}

function isBlank(text: string | null): text is null | '' {
  return text === null || text === ''
}

function newGroup(row: number, key: string, place: number): MutableGroup {
  return { row, key, place, items: [], ...describeAttempts([], 0) }
}
