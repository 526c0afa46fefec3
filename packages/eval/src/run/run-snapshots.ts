import { readFileSync } from 'node:fs'

import type { ItemEvent } from '../analysis/item-event.ts'
import { toRunDocument } from '../analysis/run-document.ts'
import { runStatistics } from '../analysis/run-statistics.ts'
import { RunTable } from '../analysis/run-table.ts'
import { indexPieces, toMetricsDocument } from '../files/result-documents.ts'
import { runFiles } from '../store/run-files.ts'
import type { RunStore } from '../store/run-store.ts'
import type { RunSnapshots } from '../store/snapshot-files.ts'
import { costOfItems } from './run-cost.ts'
import type { EvaluationSnapshot } from './evaluation-result.ts'
import type { ModelTag } from './item-runner.ts'

/** Keeps `index.jsonl`, `metrics.json` and `progress.json` of a run up to date. */
export class RunSnapshotFiles {
  readonly #store: RunStore
  readonly #tables: Tables
  /** What the tables lack. */
  #added: ItemEvent[] = []

  /** @param isCompared - whether there are two models */
  constructor(store: RunStore, isCompared: boolean) {
    this.#store = store
    this.#tables = tablesOf(store, isCompared)
  }

  /** Takes an event that the store has. */
  add(event: ItemEvent): void {
    this.#added.push(event)
  }

  /** Writes them if it is time to; `snapshot` is called only then. */
  async refresh(snapshot: () => EvaluationSnapshot): Promise<void> {
    await this.#store.refreshSnapshots(() => this.#texts(snapshot()))
  }

  async write(snapshot: EvaluationSnapshot): Promise<void> {
    await this.#store.writeSnapshots(() => this.#texts(snapshot))
  }

  #texts(snapshot: EvaluationSnapshot): RunSnapshots {
    const added = this.#added.splice(0)
    const { primary, baseline } = this.#tables
    primary.append(added)
    baseline?.append(added)
    return {
      index: indexPieces(snapshot),
      metrics: toText(toDocument(snapshot, this.#store, this.#tables)),
      progress: toText(toProgress(snapshot)),
    }
  }
}

/** The document of `metrics.json`: figures of the records, then the statistics of each model. */
export function metricsDocument(
  snapshot: EvaluationSnapshot,
  store: Pick<RunStore, 'manifest' | 'events'>,
): Record<string, unknown> {
  return toDocument(snapshot, store, tablesOf(store, snapshot.baseline !== null))
}

interface Tables {
  readonly primary: RunTable
  /** Undefined without a baseline. */
  readonly baseline: RunTable | undefined
}

function tablesOf(
  { manifest, events }: Pick<RunStore, 'manifest' | 'events'>,
  isCompared: boolean,
): Tables {
  const table = (modelTag: ModelTag): RunTable =>
    new RunTable(toRunDocument(manifest, events.values(), [], { modelTag }))
  return { primary: table('primary'), baseline: isCompared ? table('baseline') : undefined }
}

function toDocument(
  snapshot: EvaluationSnapshot,
  { events }: Pick<RunStore, 'events'>,
  { primary, baseline }: Tables,
): Record<string, unknown> {
  return {
    ...toMetricsDocument(snapshot),
    total_cost_usd: costOfItems(events.values())?.usd ?? null,
    ...runStatistics(primary),
    ...(baseline === undefined ? {} : { baseline: runStatistics(baseline) }),
  }
}

function toProgress(snapshot: EvaluationSnapshot): Record<string, unknown> {
  const { status, pending, durationMs, incompleteReason, model, baseline } = snapshot
  const done = model.metrics.totalItems + (baseline?.metrics.totalItems ?? 0)
  return {
    status,
    done,
    total: done + pending,
    failed: model.metrics.failed + (baseline?.metrics.failed ?? 0),
    duration_ms: Math.round(durationMs),
    updated_at: new Date().toISOString(),
    ...(incompleteReason === null ? {} : { incomplete_reason: incompleteReason }),
  }
}

/** How long earlier starts were at a run, as far as they could say. Milliseconds. */
export function earlierDurationMs(location: string): number {
  return Number(earlierProgress(location)['duration_ms']) || 0
}

/** Why an earlier start did not get to the end; undefined when it did, or could not say. */
export function earlierReason(location: string): string | undefined {
  const { incomplete_reason: reason } = earlierProgress(location)
  return typeof reason === 'string' ? reason : undefined
}

function earlierProgress(location: string): Record<string, unknown> {
  try {
    const progress: unknown = JSON.parse(readFileSync(runFiles(location).progress, 'utf8'))
    return (progress ?? {}) as Record<string, unknown>
  } catch {
    // A run that was killed before its first snapshot.
    return {}
  }
}

function toText(document: object): string {
  return `${JSON.stringify(document, null, 2)}\n`
}
