import { type Grade, gradedEvents, itemKey, type RunReader } from '@osmosis/eval'
import {
  appendEvents,
  type ItemEvent,
  type RunDocument,
  type RunManifest,
  type RunNote,
  toRunDocument,
} from '@osmosis/eval/analysis'

/** What stands behind the @ of a name: the baseline of a run, or one of its re-gradings. */
export type Variant =
  | { readonly kind: 'run' | 'baseline' }
  | { readonly kind: 'grading'; readonly grades: ReadonlyMap<string, Grade> }

/** A run as one model did it and one grader judged it: the data of a page, kept up to date. */
export class RunView {
  readonly name: string
  readonly document: RunDocument
  /** How often something was appended. */
  changes = 0
  readonly #variant: Variant
  readonly #manifest: RunManifest

  constructor(
    name: string,
    variant: Variant,
    { manifest, events, notes }: Pick<RunReader, 'manifest' | 'events'> & { notes: RunNote[] },
  ) {
    this.name = name
    this.#variant = variant
    const modelTag = this.#tag
    this.#manifest = manifest
    const own = this.#graded([...events.values()])
    this.document = { ...toRunDocument(manifest, own, notes, { modelTag }), name }
  }

  /** Items that a whole run of this model has. */
  static total({ rows, n }: RunManifest): number {
    return rows.length * n
  }

  get ended(): number {
    return this.document.columns.row.length
  }

  /** Takes up what has ended, and gives it as this view shows it. */
  append(events: readonly ItemEvent[]): ItemEvent[] {
    const own = this.#graded(events.filter(({ model_tag: tag = 'primary' }) => tag === this.#tag))
    if (own.length > 0) {
      appendEvents(this.document, own)
      this.changes += 1
    }
    return own
  }

  /** The item of this model, as the journal has it. */
  keyOf(row: number, attempt: number): string {
    const tag = this.#tag === 'baseline' ? ({ model_tag: 'baseline' } as const) : {}
    return itemKey({ source_row_index: row, run_index: attempt, ...tag })
  }

  /** Whether an event is of this model. */
  has({ model_tag: tag = 'primary' }: Pick<ItemEvent, 'model_tag'>): boolean {
    return tag === this.#tag
  }

  get #tag(): 'primary' | 'baseline' {
    return this.#variant.kind === 'baseline' ? 'baseline' : 'primary'
  }

  #graded(events: readonly ItemEvent[]): ItemEvent[] {
    if (this.#variant.kind !== 'grading') return [...events]
    return gradedEvents(this.#manifest, events, this.#variant.grades)
  }
}
