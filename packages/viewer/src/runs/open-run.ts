import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { type AuditVerdict, currentVerdicts, openRunFolder, type RunFolder } from '@osmosis/eval'
import type { ItemEvent, RunManifest, RunNote } from '@osmosis/eval/analysis'

import type {
  ItemEnding,
  ItemName,
  LiveUpdate,
  RunAnswer,
  RunProgress,
  TranscriptAnswer,
} from '../wire.ts'
import { type PlacedItem, RunView } from './run-view.ts'
import { fileStamp, Stamped } from './stamped.ts'

/** Receives the updates of a view. */
export type Follower = (update: LiveUpdate) => void

/** Interval of reading the files of a run that is followed; a row is shown within 0.3 s. Milliseconds. */
const pollMs = 60

/** How long the answer to whether a process writes to the run is cached. Milliseconds. */
const writerMs = 1000

/** An open run: its files, its requested views, and their followers. */
export class OpenRun {
  /** As pages name it. */
  readonly name: string
  readonly #folder: RunFolder
  /** By variant. */
  readonly #views = new Map<string, { stamp: string; view: Promise<RunView> }>()
  /** With the variant that each one follows. */
  readonly #followers = new Map<Follower, string>()
  #manifest: RunManifest
  #refreshing: Promise<void> | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #writer = { isThere: false, until: 0 }
  #state: RunProgress['state'] | undefined
  #notesStamp = ''
  readonly #verdicts = new Stamped<Promise<readonly AuditVerdict[]>>()

  private constructor(folder: RunFolder, name: string) {
    this.name = name
    this.#folder = folder
    this.#manifest = folder.manifest
  }

  /** @throws OsmosisError with code `damaged_run` */
  static async open(location: string, name = path.basename(location)): Promise<OpenRun> {
    return new OpenRun(await openRunFolder(location), name)
  }

  /** Its folder; absolute. */
  get location(): string {
    return this.#folder.location
  }

  get manifest(): RunManifest {
    return this.#folder.manifest
  }

  /** Names of the re-gradings of the run: `<run>@<grading>`. */
  async variants(): Promise<string[]> {
    return (await this.#folder.gradings()).map((grading) => `${this.name}@${grading}`)
  }

  /**
   * Returns an up-to-date view.
   *
   * @param variant - the part after the @ of its name; empty for the run itself
   * @returns undefined when there is no such variant
   * @throws OsmosisError with code `damaged_run`
   */
  async view(variant: string): Promise<RunView | undefined> {
    await this.refresh()
    const name = variant === '' ? this.name : `${this.name}@${variant}`
    if (variant !== '' && !(await this.variants()).includes(name)) return undefined
    const stamp = this.#stampOf(variant)
    const open = this.#views.get(variant)
    if (open?.stamp === stamp) return open.view
    const view = this.#build(name, variant)
    this.#views.set(variant, { stamp, view })
    try {
      return await view
    } catch (error) {
      this.#views.delete(variant)
      throw error
    }
  }

  /** Whether a process writes to the run now. */
  isWritten(): boolean {
    return this.#folder.writer() !== null
  }

  async answer(view: RunView): Promise<RunAnswer> {
    const progress = await this.progress(view)
    const document = { ...view.document, running: progress.state === 'running' }
    const variants = await this.variants()
    return { document, progress, variants: [this.name, ...variants] }
  }

  /** @param isWritten - whether a process writes to the run. Default: as of a moment ago */
  async progress(view: RunView, isWritten = this.#wasWritten()): Promise<RunProgress> {
    const total = RunView.total(this.manifest)
    const { ended, coverage } = view
    if (coverage !== undefined) {
      const { graded, gradable } = coverage
      return { state: 'graded', ended: graded, total: gradable, reason: null }
    }
    if (isWritten) return { state: 'running', ended, total, reason: null }
    if (ended >= total) return { state: 'finished', ended, total, reason: null }
    return { state: 'incomplete', ended, total, reason: await this.#incompleteReason() }
  }

  async transcript(view: RunView, [row, attempt]: ItemName): Promise<TranscriptAnswer | undefined> {
    const event = await view.event(row, attempt)
    if (event === undefined) return undefined
    const ending = await this.#endingOf(event)
    if (event.trajectory_place === null) return { state: 'silent', ending }
    const stored = await this.#folder.trajectories(event)
    if (stored.state !== 'found') return { state: stored.state, ending }
    return { state: 'found', samples: stored.value, ending }
  }

  async ending(view: RunView, [row, attempt]: ItemName): Promise<ItemEnding | undefined> {
    const event = await view.event(row, attempt)
    return event && this.#endingOf(event)
  }

  async #endingOf(event: ItemEvent): Promise<ItemEnding> {
    const { error_message: error, samples: rewards, score_errors: scoreErrors = {} } = event
    const stack = (await this.#folder.stack(event)) ?? null
    return { error, stack, rewards, scoreErrors, verdicts: await this.#verdictsOf(event) }
  }

  /** Items about which a reviewer decided something, also of an earlier grade; each once. */
  async judged(): Promise<ItemName[]> {
    const byKey = new Map(
      (await this.#readVerdicts()).map(({ source_row_index: row, run_index: attempt }) => [
        `${row}.${attempt}`,
        [row, attempt] as const,
      ]),
    )
    return [...byKey.values()]
  }

  async #readVerdicts(): Promise<readonly AuditVerdict[]> {
    return this.#verdicts.get(this.#fileStamp('verdicts.jsonl'), () => this.#folder.verdicts())
  }

  async #verdictsOf(event: ItemEvent): Promise<ItemEnding['verdicts']> {
    const current = currentVerdicts(await this.#readVerdicts(), event)
    return Object.fromEntries(
      current.map(({ check, verdict, because, by }) => [check, `${verdict}: ${because} (${by})`]),
    )
  }

  /** The items whose transcripts contain all the words. */
  async search(
    view: RunView,
    words: readonly string[],
    signal: AbortSignal,
  ): Promise<readonly ItemName[]> {
    if (words.length === 0) return []
    let items: Iterable<PlacedItem> = view.items()
    for (const word of words) {
      const found: PlacedItem[] = []
      for await (const item of this.#folder.searchIn(items, word, { signal })) found.push(item)
      items = found
    }
    return [...items].map(({ row, attempt }) => [row, attempt])
  }

  /** @throws OsmosisError with code `storage_error` */
  async addNote(note: Omit<RunNote, 'at'>): Promise<RunNote> {
    // Followers receive it like notes of other processes: from the file.
    return toNote(await this.#folder.addNote(note))
  }

  /** Calls the follower with updates of a view; returns a function that ends this. */
  follow(variant: string, follower: Follower): () => void {
    this.#followers.set(follower, variant)
    this.#timer ??= setTimeout(() => this.#poll(), pollMs)
    return () => {
      this.#followers.delete(follower)
      if (this.#followers.size > 0) return
      clearTimeout(this.#timer)
      this.#timer = undefined
    }
  }

  /** Reads what was written since the last refresh; concurrent calls share one. */
  async refresh(): Promise<void> {
    return (this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined
    }))
  }

  async #refresh(): Promise<void> {
    await this.#folder.refreshManifest()
    if (this.#folder.manifest !== this.#manifest) {
      // The run was extended or replaced: views are built again.
      this.#manifest = this.#folder.manifest
      this.#views.clear()
      for (const follower of this.#followers.keys()) follower({ stale: true })
      return
    }
    this.#dropRegraded()
    await this.#refreshNotes()
    for (const [variant, view] of await this.#openViews()) {
      const events = await this.#eventsOf(variant, view)
      if (events === 'replaced') this.#notify(variant, { stale: true })
      else if (events.length > 0) {
        this.#notify(variant, { events, progress: await this.progress(view) })
      }
    }
  }

  /** A grading that was written again is read again. */
  #dropRegraded(): void {
    for (const [variant, { stamp }] of this.#views) {
      if (stamp === this.#stampOf(variant)) continue
      this.#views.delete(variant)
      this.#notify(variant, { stale: true })
    }
  }

  async #refreshNotes(): Promise<void> {
    const stamp = this.#fileStamp('notes.jsonl')
    if (stamp === this.#notesStamp) return
    this.#notesStamp = stamp
    const all = (await this.#folder.notes()).map(toNote)
    for (const [variant, view] of await this.#openViews()) {
      const notes = view.setNotes(all)
      if (notes === 'replaced') this.#notify(variant, { stale: true })
      else if (notes.length > 0) this.#notify(variant, { notes })
    }
  }

  /** A view that is no longer valid is built again when it is requested. */
  async #eventsOf(variant: string, view: RunView): ReturnType<RunView['refresh']> {
    try {
      const events = await view.refresh()
      if (events === 'replaced') this.#views.delete(variant)
      return events
    } catch (error) {
      this.#views.delete(variant)
      throw error
    }
  }

  #notify(variant: string, update: LiveUpdate): void {
    for (const [follower, followed] of this.#followers) if (followed === variant) follower(update)
  }

  #poll(): void {
    this.#look()
      .catch(() => {
        // The next poll may succeed; requests for the run report the error.
      })
      .finally(() => {
        if (this.#followers.size > 0) this.#timer = setTimeout(() => this.#poll(), pollMs)
      })
  }

  async #look(): Promise<void> {
    await this.refresh()
    const state = this.#wasWritten() ? 'running' : 'finished'
    const hasChanged = this.#state !== undefined && this.#state !== state
    this.#state = state
    if (!hasChanged) return
    for (const [variant, view] of await this.#openViews()) {
      this.#notify(variant, { progress: await this.progress(view) })
    }
  }

  async #build(name: string, variant: string): Promise<RunView> {
    const grades = variant === '' ? undefined : await this.#folder.grades(variant)
    const notes = (await this.#folder.notes()).map(toNote)
    return RunView.open({ name, grades, notes }, this.#folder)
  }

  async #openViews(): Promise<[variant: string, view: RunView][]> {
    return Promise.all(
      [...this.#views].map(async ([variant, { view }]): Promise<[string, RunView]> => [
        variant,
        await view,
      ]),
    )
  }

  /** Changes when a variant must be read again. */
  #stampOf(variant: string): string {
    return variant === '' ? '' : this.#fileStamp('grades', `${variant}.jsonl`)
  }

  #fileStamp(...names: readonly string[]): string {
    return fileStamp(path.join(this.#folder.location, ...names))
  }

  #wasWritten(): boolean {
    if (performance.now() >= this.#writer.until) {
      const isThere = this.isWritten()
      this.#writer = { isThere, until: performance.now() + writerMs }
    }
    return this.#writer.isThere
  }

  /** As the process that ran it recorded it; null when unknown. */
  async #incompleteReason(): Promise<string | null> {
    try {
      const text = await readFile(path.join(this.#folder.location, 'metrics.json'), 'utf8')
      const { eval_run: run } = JSON.parse(text) as { eval_run?: { incomplete_reason?: unknown } }
      return typeof run?.incomplete_reason === 'string' ? run.incomplete_reason : null
    } catch {
      return null
    }
  }
}

/** A note as tables have it: without a tag its tag is empty. */
function toNote(note: Omit<RunNote, 'tag'> & { readonly tag: string | null }): RunNote {
  return { ...note, tag: note.tag ?? '' }
}
