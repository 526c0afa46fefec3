import {
  type Grade,
  gradedEvents,
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

/** Where items lie in the files of a run, by numbers from 0: 48 bytes each, for very many. */
class ItemPlaces {
  #numbers = new Float64Array(256 * fields)

  /** @param at - of what was said; null for nothing */
  set(index: number, { offset, length }: JournalPlace, at: SegmentPlace | null): void {
    while (this.#numbers.length < (index + 1) * fields) {
      const longer = new Float64Array(this.#numbers.length * 2)
      longer.set(this.#numbers)
      this.#numbers = longer
    }
    // No line has no bytes.
    this.#numbers.set([offset, length, ...(at ?? [0, 0, 0, 0])], index * fields)
  }

  /** The line of the journal. */
  event(index: number): JournalPlace {
    const [offset = 0, length = 0] = this.#of(index)
    return { offset, length }
  }

  /** The line of a segment with what was said; null for nothing. */
  said(index: number): SegmentPlace | null {
    const [, , segment = 0, offset = 0, length = 0, crc = 0] = this.#of(index)
    return length === 0 ? null : [segment, offset, length, crc]
  }

  #of(index: number): Float64Array {
    return this.#numbers.subarray(index * fields, (index + 1) * fields)
  }
}

/** What stands behind the @ of a name: the baseline of a run, or one of its re-gradings. */
export type Variant =
  | { readonly kind: 'run' | 'baseline' }
  | { readonly kind: 'grading'; readonly grades: ReadonlyMap<string, Grade> }

/** What a run is looked at as. */
export interface ViewedRun {
  readonly name: string
  readonly variant: Variant
  readonly notes: readonly RunNote[]
}

/** An item, and where it lies what was said in it. */
export interface PlacedItem extends Pick<ItemEvent, 'at'> {
  readonly row: number
  readonly attempt: number
}

/**
 * A run as one model did it and one grader judged it: the data of a page, kept up to date. Of its
 * events, which are many, only columns are kept.
 */
export class RunView {
  readonly name: string
  /** How often something changed. */
  changes = 0
  readonly #variant: Variant
  readonly #folder: RunFolder
  readonly #manifest: RunManifest
  readonly #notes: readonly RunNote[]
  readonly #journal: JournalFollower
  #document: RunDocument
  #places = new ItemPlaces()
  /** Items that have ended and that its grading has not judged: not yet, and those that it cannot. */
  #ungraded = { left: new Set<string>(), unfit: new Set<string>() }

  private constructor({ name, variant, notes }: ViewedRun, folder: RunFolder) {
    this.name = name
    this.#variant = variant
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

  /** Items that a whole run of this model has. */
  static total({ rows, n }: RunManifest): number {
    return rows.length * n
  }

  get document(): RunDocument {
    return this.#document
  }

  get ended(): number {
    return this.#document.columns.row.length
  }

  /** How much of the run its grading covers; undefined where it is all, or this is no re-grading. */
  get coverage(): { readonly graded: number; readonly gradable: number } | undefined {
    const { left, unfit } = this.#ungraded
    if (left.size === 0) return undefined
    const graded = this.ended - unfit.size
    return { graded, gradable: graded + left.size }
  }

  /**
   * Takes up what has ended, and gives it as this view shows it; `replaced` when the journal is another
   * one, so that nothing of the view holds.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  async refresh(): Promise<readonly ItemEvent[] | 'replaced'> {
    const own: ItemEvent[] = []
    const isReplaced = await this.#read((event) => own.push(event))
    if (own.length > 0) this.changes += 1
    return isReplaced ? 'replaced' : own
  }

  /** An item as the journal and this view have it; undefined for no such item, or a lost line. */
  async event(row: number, attempt: number): Promise<ItemEvent | undefined> {
    const item = findItem(this.#document, row, attempt)
    if (item === undefined) return undefined
    const stored = await this.#folder.event(this.#places.event(item))
    return stored.state === 'found' ? this.#graded(stored.value)[0] : undefined
  }

  *items(): Generator<PlacedItem, void, undefined> {
    const { row: rows, attempt } = this.#document.columns
    for (const [item, row] of rows.entries()) {
      yield { row, attempt: attempt[item] ?? 0, at: this.#places.said(item) }
    }
  }

  /** Takes up the notes of the run; `replaced` when they do not just follow on those that it has. */
  setNotes(all: readonly RunNote[]): readonly RunNote[] | 'replaced' {
    const own = all.filter((note) => this.has(note))
    const { notes } = this.#document
    const isSame = notes.every((note, index) => note.at === own[index]?.at)
    const added = own.slice(notes.length)
    if (isSame && added.length === 0) return []
    this.changes += 1
    notes.splice(0, notes.length, ...own)
    return isSame ? added : 'replaced'
  }

  /** Whether an event is of this model. */
  has({ model_tag: tag = 'primary' }: Pick<ItemEvent, 'model_tag'>): boolean {
    return tag === this.#tag
  }

  get #tag(): 'primary' | 'baseline' {
    return this.#variant.kind === 'baseline' ? 'baseline' : 'primary'
  }

  /** Whether it began again. */
  async #read(onEvent: (event: ItemEvent) => void): Promise<boolean> {
    let isAgain = false
    const visitor: JournalVisitor = {
      begin: () => {
        isAgain = true
        this.#document = this.#emptyDocument()
        this.#places = new ItemPlaces()
        this.#ungraded = { left: new Set(), unfit: new Set() }
      },
      take: (event, place) => {
        if (!this.has(event)) return
        const graded = this.#graded(event)
        this.#count(event, graded)
        for (const own of graded) {
          for (const item of appendEvents(this.#document, [own])) {
            this.#places.set(item, place, own.at)
          }
          onEvent(own)
        }
      },
    }
    await this.#journal.read(visitor)
    return isAgain
  }

  #emptyDocument(): RunDocument {
    const options = { modelTag: this.#tag }
    return { ...toRunDocument(this.#manifest, [], this.#notes, options), name: this.name }
  }

  #count(event: ItemEvent, [own]: readonly ItemEvent[]): void {
    if (this.#variant.kind !== 'grading') return
    const { left, unfit } = this.#ungraded
    const key = `${event.source_row_index}.${event.run_index}`
    left.delete(key)
    unfit.delete(key)
    if (own === undefined) left.add(key)
    else if (own === event) unfit.add(key)
  }

  #graded(event: ItemEvent): ItemEvent[] {
    if (this.#variant.kind !== 'grading') return [event]
    return gradedEvents(this.#manifest, [event], this.#variant.grades)
  }
}
