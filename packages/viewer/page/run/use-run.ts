import { RunTable } from '@osmosis/eval/analysis'
import { useEffect, useRef, useState } from 'preact/hooks'

import type { LiveUpdate, RunAnswer, RunProgress } from '../../src/wire.ts'
import type { Source } from '../source/source.ts'

/** A run on the screen. A new object for every change, so that hooks notice it; the table is the same. */
export interface DisplayedRun {
  /** The requested name, e.g. `my-run@grading`. */
  readonly name: string
  readonly table: RunTable
  readonly progress: RunProgress
  readonly variants: readonly string[]
  readonly canRegrade: boolean
}

export type RunState =
  | { readonly state: 'loading' }
  | { readonly state: 'failed'; readonly problem: string }
  | { readonly state: 'shown'; readonly run: DisplayedRun }

/** Reads a run and follows it. */
export function useRun(source: Source, name: string): RunState {
  const [state, setState] = useState<RunState>({ state: 'loading' })
  const follower = useRef<RunFollower>(undefined)
  useEffect(() => {
    setState({ state: 'loading' })
    const created = new RunFollower(source, name, setState)
    follower.current = created
    return () => created.close()
  }, [source, name])
  return state
}

/** Keeps a table up to date. Updates are batched so that a large fast run leaves the page responsive. */
class RunFollower {
  readonly #source: Source
  readonly #name: string
  readonly #show: (state: RunState) => void
  readonly #stop: (() => void) | undefined
  #waiting: LiveUpdate[] = []
  #shown: DisplayedRun | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #loads = 0
  /** The answer may be older than updates that arrive while it is awaited: these wait for its table. */
  #isLoading = false
  #closed = false
  /** No update is applied before this time. */
  #restUntil = 0

  constructor(source: Source, name: string, show: (state: RunState) => void) {
    this.#source = source
    this.#name = name
    this.#show = show
    if (source.follow === undefined) void this.#load()
    else {
      this.#stop = source.follow(
        name,
        () => void this.#load(),
        (update) => this.#receive(update),
      )
    }
  }

  close(): void {
    this.#closed = true
    this.#stop?.()
    clearTimeout(this.#timer)
  }

  /** Updates that arrive while the run is read are applied afterwards. */
  async #load(): Promise<void> {
    const load = ++this.#loads
    this.#isLoading = true
    this.#waiting = []
    try {
      const answer = await this.#source.run(this.#name)
      if (load === this.#loads) this.#shown = shownRun(this.#name, answer)
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      if (!this.#closed && this.#shown === undefined) this.#show({ state: 'failed', problem })
    }
    if (load !== this.#loads) return
    this.#isLoading = false
    this.#apply()
  }

  #receive(update: LiveUpdate): void {
    if (update.stale === true) {
      void this.#load()
      return
    }
    this.#waiting.push(update)
    if (this.#shown === undefined) return
    const waitMs = Math.max(0, this.#restUntil - performance.now())
    this.#timer ??= setTimeout(() => this.#apply(), waitMs)
  }

  #apply(): void {
    this.#timer = undefined
    if (this.#shown === undefined || this.#isLoading || this.#closed) return
    const started = performance.now()
    const { table } = this.#shown
    const updates = this.#waiting.splice(0)
    const events = updates.flatMap((update) => update.events ?? [])
    if (events.length > 0) table.append(events)
    for (const note of updates.flatMap((update) => update.notes ?? [])) table.addNote(note)
    const progress = updates.findLast((update) => update.progress)?.progress
    this.#shown = { ...this.#shown, ...(progress === undefined ? {} : { progress }) }
    this.#show({ state: 'shown', run: this.#shown })
    const now = performance.now()
    // Drawing takes about as long as applying.
    this.#restUntil = now + 4 * (now - started)
  }
}

function shownRun(name: string, answer: RunAnswer): DisplayedRun {
  const { document, progress, variants, canRegrade = false } = answer
  return { name, table: new RunTable(document), progress, variants, canRegrade }
}
