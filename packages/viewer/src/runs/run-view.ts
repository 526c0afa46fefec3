import {
  type Grade,
  gradedEvents,
  type JournalFollower,
  type JournalVisitor,
  type RunFolder,
} from '@osmosis/eval'
import {
  appendEvents,
  findItem,
  type ItemEvent,
  type RunDocument,
  type RunManifest,
  type RunNote,
  toRunDocument,
} from '@osmosis/eval/analysis'

import { ItemPlaces } from './item-places.ts'

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
  /** How often something was appended. */
  changes = 0
  readonly #variant: Variant
  readonly #folder: RunFolder
  readonly #manifest: RunManifest
  readonly #notes: readonly RunNote[]
  readonly #journal: JournalFollower
  #document: RunDocument
  #places = new ItemPlaces()

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

  /** Whether an event is of this model. */
  has({ model_tag: tag = 'primary' }: Pick<ItemEvent, 'model_tag'>): boolean {
    return tag === this.#tag
  }

  get #tag(): 'primary' | 'baseline' {
    return this.#variant.kind === 'baseline' ? 'baseline' : 'primary'
  }

  /** Whether it began anew. */
  async #read(onEvent: (event: ItemEvent) => void): Promise<boolean> {
    let isAgain = false
    const visitor: JournalVisitor = {
      begin: () => {
        isAgain = true
        this.#document = this.#emptyDocument()
        this.#places = new ItemPlaces()
      },
      take: (event, place) => {
        if (!this.has(event)) return
        for (const own of this.#graded(event)) {
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

  #graded(event: ItemEvent): ItemEvent[] {
    if (this.#variant.kind !== 'grading') return [event]
    return gradedEvents(this.#manifest, [event], this.#variant.grades)
  }
}
