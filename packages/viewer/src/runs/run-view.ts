import {
  type Grade,
  gradedEvents,
  itemKey,
  type JournalFollower,
  type JournalVisitor,
  type RunFolder,
  type JournalPlace,
} from '@osmosis/eval'
import {
  appendEvents,
  findItem,
  type ItemEvent,
  type RunDocument,
  type RunManifest,
  type RunNote,
  toRunDocument,
  type SegmentPlace,
} from '@osmosis/eval/analysis'

const fields = 6

/** The places of items in the files of a run, by numbers from 0. Compact: 48 bytes per item. */
class ItemPlaces {
  #numbers = new Float64Array(256 * fields)

  /** @param at - place of its transcript; null for none */
  set(index: number, { offset, length }: JournalPlace, at: SegmentPlace | null): void {
    while (this.#numbers.length < (index + 1) * fields) {
      const longer = new Float64Array(this.#numbers.length * 2)
      longer.set(this.#numbers)
      this.#numbers = longer
    }
    // A length of 0 means none: every line has bytes.
    this.#numbers.set([offset, length, ...(at ?? [0, 0, 0, 0])], index * fields)
  }

  /** The line of the journal. */
  event(index: number): JournalPlace {
    const [offset = 0, length = 0] = this.#of(index)
    return { offset, length }
  }

  /** The line of the transcript in a segment; null for none. */
  transcript(index: number): SegmentPlace | null {
    const [, , segment = 0, offset = 0, length = 0, crc = 0] = this.#of(index)
    return length === 0 ? null : [segment, offset, length, crc]
  }

  #of(index: number): Float64Array {
    return this.#numbers.subarray(index * fields, (index + 1) * fields)
  }
}

/** Describes a view of a run. */
export interface ViewedRun {
  readonly name: string
  /** Those of a re-grading; undefined for the run itself. */
  readonly grades: ReadonlyMap<string, Grade> | undefined
  readonly notes: readonly RunNote[]
}

/** An item with the place of its transcript. */
export interface PlacedItem extends Pick<ItemEvent, 'trajectory_place'> {
  readonly row: number
  readonly attempt: number
}

/**
 * The rollouts of a run with the grades of one grader: the data of a page, updated continuously. It stores
 * columns instead of events, which may be many.
 */
export class RunView {
  readonly name: string
  /** Incremented by each change. */
  changes = 0
  readonly #grades: ReadonlyMap<string, Grade> | undefined
  readonly #folder: RunFolder
  readonly #manifest: RunManifest
  readonly #notes: readonly RunNote[]
  readonly #journal: JournalFollower
  #document: RunDocument
  #places = new ItemPlaces()
  /** Ended items without a grade: not graded yet (`left`), and not gradable (`unfit`). */
  #ungraded = { left: new Set<string>(), unfit: new Set<string>() }

  private constructor({ name, grades, notes }: ViewedRun, folder: RunFolder) {
    this.name = name
    this.#grades = grades
    this.#notes = notes
    this.#folder = folder
    this.#manifest = folder.manifest
    this.#journal = folder.followJournal()
    this.#document = this.#emptyDocument()
  }

  /** @throws OsmosisError with code `damaged_run` */
  static async open(viewed: ViewedRun, folder: RunFolder): Promise<RunView> {
    const view = new RunView(viewed, folder)
    await view.#read(() => {})
    return view
  }

  /** The number of items of a complete run. */
  static total({ rows, n }: RunManifest): number {
    return rows.length * n
  }

  get document(): RunDocument {
    return this.#document
  }

  get ended(): number {
    return this.#document.columns.row.length
  }

  /** The coverage of an incomplete re-grading; undefined for any other view. */
  get coverage(): { readonly graded: number; readonly gradable: number } | undefined {
    const { left, unfit } = this.#ungraded
    if (left.size === 0) return undefined
    const graded = this.ended - unfit.size
    return { graded, gradable: graded + left.size }
  }

  /**
   * Adds items that have ended, and returns their events as this view shows them; `replaced` when the journal
   * was replaced, which makes the view invalid.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  async refresh(): Promise<readonly ItemEvent[] | 'replaced'> {
    const own: ItemEvent[] = []
    const isReplaced = await this.#read((event) => own.push(event))
    if (own.length > 0) this.changes += 1
    return isReplaced ? 'replaced' : own
  }

  /** An item as this view shows it; undefined for an unknown item, or a lost line. */
  async event(row: number, attempt: number): Promise<ItemEvent | undefined> {
    const item = findItem(this.#document, row, attempt)
    if (item === undefined) return undefined
    const stored = await this.#folder.event(this.#places.event(item))
    return stored.state === 'found' ? this.#graded(stored.value)[0] : undefined
  }

  *items(): Generator<PlacedItem, void, undefined> {
    const { row: rows, attempt } = this.#document.columns
    for (const [item, row] of rows.entries()) {
      yield { row, attempt: attempt[item] ?? 0, trajectory_place: this.#places.transcript(item) }
    }
  }

  /** Sets the notes of the run, and returns the new ones; `replaced` when earlier notes have changed. */
  setNotes(all: readonly RunNote[]): readonly RunNote[] | 'replaced' {
    const { notes } = this.#document
    const isSame = notes.every((note, index) => note.at === all[index]?.at)
    const added = all.slice(notes.length)
    if (isSame && added.length === 0) return []
    this.changes += 1
    notes.splice(0, notes.length, ...all)
    return isSame ? added : 'replaced'
  }

  /** Resolves to whether the journal was read from its beginning. */
  async #read(onEvent: (event: ItemEvent) => void): Promise<boolean> {
    let isRestarted = false
    const show = (event: ItemEvent, place: JournalPlace): void => {
      const graded = this.#graded(event)
      this.#count(event, graded)
      // An item that was run again has left the re-grading, which a view that is read from the beginning shows.
      if (graded.length === 0 && this.#has(event)) isRestarted = true
      for (const own of graded) {
        for (const item of appendEvents(this.#document, [own])) {
          this.#places.set(item, place, own.trajectory_place)
        }
        onEvent(own)
      }
    }
    // Of an item that was run again, only the last rollout may be shown, and only an earlier one may have a grade.
    const last = new Map<string, readonly [ItemEvent, JournalPlace]>()
    const visitor: JournalVisitor = {
      begin: () => {
        isRestarted = true
        last.clear()
        this.#document = this.#emptyDocument()
        this.#places = new ItemPlaces()
        this.#ungraded = { left: new Set(), unfit: new Set() }
      },
      take: (event, place) => {
        if (this.#grades === undefined) show(event, place)
        else last.set(itemKey(event), [event, place])
      },
    }
    await this.#journal.read(visitor)
    for (const [event, place] of last.values()) show(event, place)
    return isRestarted
  }

  #has({ source_row_index: row, run_index: attempt }: ItemEvent): boolean {
    return findItem(this.#document, row, attempt) !== undefined
  }

  #emptyDocument(): RunDocument {
    return { ...toRunDocument(this.#manifest, [], this.#notes), name: this.name }
  }

  #count(event: ItemEvent, [own]: readonly ItemEvent[]): void {
    if (this.#grades === undefined) return
    const { left, unfit } = this.#ungraded
    const key = `${event.source_row_index}.${event.run_index}`
    left.delete(key)
    unfit.delete(key)
    if (own === undefined) left.add(key)
    else if (own === event) unfit.add(key)
  }

  #graded(event: ItemEvent): ItemEvent[] {
    if (this.#grades === undefined) return [event]
    return gradedEvents(this.#manifest, [event], this.#grades)
  }
}
