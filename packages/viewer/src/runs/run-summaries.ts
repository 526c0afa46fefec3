import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { errorMessage } from '@osmosis/core'
import { findings, gradientShare, meanValue, passRate, RunTable } from '@osmosis/eval/analysis'
import { ownerOf } from '@osmosis/protocol/files'

import type { RunListing, RunSummary } from '../wire.ts'
import { OpenRun } from './open-run.ts'
import type { CatalogRun, RunCatalog } from './run-catalog.ts'
import { fileStamp } from './stamped.ts'

/** How long a list waits for figures; those of large runs are in a later list. Milliseconds. */
const patienceMs = 400

interface Cached {
  /** Changes when the run does. */
  readonly stamp: string
  readonly listing: Promise<RunListing>
  /** The latest known listing. */
  known: RunListing | undefined
}

/** The lines of the list of runs; each is computed again only when its run has changed. */
export class RunSummaries {
  readonly #shelf: RunCatalog
  readonly #cache = new Map<string, Cached>()
  #last: Promise<unknown> = Promise.resolve()

  constructor(shelf: RunCatalog) {
    this.#shelf = shelf
  }

  async list(): Promise<RunListing[]> {
    const found = await this.#shelf.list()
    const cached = found.map((run) => ({ run, entry: this.#entry(run) }))
    await Promise.race([
      Promise.all(cached.map(({ entry }) => entry.listing)),
      sleep(patienceMs, undefined, { ref: false }),
    ])
    return cached.map(({ run, entry }) => entry.known ?? { name: run.name, isReading: true })
  }

  #entry(run: CatalogRun): Cached {
    const stamp = stampOf(run.location)
    const before = this.#cache.get(run.location)
    if (before?.stamp === stamp) return before
    const turn = this.#last
    const read = async (): Promise<RunListing> => {
      // One after the other: a folder may hold many large runs.
      await turn
      const listing = await this.#read(run)
      entry.known = listing
      return listing
    }
    const entry: Cached = { stamp, known: before?.known, listing: read() }
    this.#last = entry.listing
    this.#cache.set(run.location, entry)
    return entry
  }

  async #read(found: CatalogRun): Promise<RunListing> {
    const { name, problem } = found
    if (problem !== null) return { name, problem }
    try {
      // A run that is not open is not held in memory after its line was computed.
      const run = await (this.#shelf.opened(found) ?? OpenRun.open(found.location))
      return await summarize(run, name)
    } catch (error) {
      return { name, problem: errorMessage(error) }
    }
  }
}

export async function summarize(run: OpenRun, name: string): Promise<RunSummary> {
  const view = await run.view('')
  if (view === undefined) throw new TypeError(`The run ${name} has no view.`)
  const { document } = view
  const table = new RunTable(document)
  const passes = passRate(table.groups)
  const found = findings(table)
  return {
    name,
    ...(await run.progress(view, run.isWritten())),
    model: document.model,
    rollout: document.rollout,
    dataset: document.dataset,
    startedAt: document.startedAt,
    durationMs: 1000 * document.columns.endedSeconds.reduce((a, b) => Math.max(a, b), 0),
    costUsd: costOf(document.columns.costUsd),
    tags: table.tags(),
    rows: document.rows.row.length,
    attempts: document.attempts,
    reward: meanValue(table.groups).value,
    passRate: passes.value,
    passInterval: passes.ci95,
    signal: document.attempts > 1 ? gradientShare(table).value : null,
    failed: found.find(({ key }) => key === 'failed')?.count ?? 0,
    suspicious: found.find(({ key }) => key === 'suspicious')?.count ?? 0,
    variants: await run.variants(),
  }
}

/** Of the items whose cost is known; null when that of none is. */
function costOf(costs: readonly (number | null)[]): number | null {
  const known = costs.filter((cost) => cost !== null)
  return known.length === 0 ? null : known.reduce((sum, cost) => sum + cost, 0)
}

/** A process that is killed changes no file, so whether one writes to the run is asked. */
function stampOf(location: string): string {
  const stamps = ['events.jsonl', 'manifest.json', 'notes.jsonl', 'grades'].map((file) =>
    fileStamp(path.join(location, file)),
  )
  const lock = path.join(location, '../.locks', path.basename(location))
  return [...stamps, ownerOf(lock) !== undefined].join(' ')
}
