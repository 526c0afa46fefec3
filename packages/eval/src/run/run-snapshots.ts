import { readFileSync } from 'node:fs'

import { toRunDocument } from '../analysis/run-document.ts'
import { runStatistics, type RunStatistics } from '../analysis/run-statistics.ts'
import { RunTable } from '../analysis/run-table.ts'
import { toIndexText, toMetricsDocument } from '../files/result-documents.ts'
import { runFiles } from '../store/run-files.ts'
import type { RunStore } from '../store/run-store.ts'
import { costOfItems } from './run-cost.ts'
import type { EvaluationSnapshot } from './evaluation-result.ts'

/** Keeps `index.jsonl`, `metrics.json` and `progress.json` of a run up to date. */
export class RunSnapshotFiles {
  readonly #store: RunStore

  constructor(store: RunStore) {
    this.#store = store
  }

  /** Writes them if it is time to; `snapshot` is called only then. */
  async refresh(snapshot: () => EvaluationSnapshot): Promise<void> {
    await this.#store.refreshSnapshots(() => this.#texts(snapshot()))
  }

  async write(snapshot: EvaluationSnapshot): Promise<void> {
    await this.#store.writeSnapshots(this.#texts(snapshot))
  }

  #texts(snapshot: EvaluationSnapshot): Parameters<RunStore['writeSnapshots']>[0] {
    return {
      index: toIndexText(snapshot),
      metrics: toText(metricsDocument(snapshot, this.#store)),
      progress: toText(toProgress(snapshot)),
    }
  }
}

/** The document of `metrics.json`: figures of the records, then the statistics of each model. */
export function metricsDocument(
  snapshot: EvaluationSnapshot,
  store: Pick<RunStore, 'manifest' | 'events'>,
): Record<string, unknown> {
  const statistics = (modelTag: 'primary' | 'baseline'): RunStatistics =>
    runStatistics(
      new RunTable(toRunDocument(store.manifest, store.events.values(), [], { modelTag })),
    )
  return {
    ...toMetricsDocument(snapshot),
    total_cost_usd: costOfItems(store.events.values())?.usd ?? null,
    ...statistics('primary'),
    ...(snapshot.baseline === null ? {} : { baseline: statistics('baseline') }),
  }
}

function toProgress(snapshot: EvaluationSnapshot): Record<string, unknown> {
  const { status, records, pending, durationMs, incompleteReason } = snapshot
  return {
    status,
    done: records.length,
    total: records.length + pending,
    failed: records.filter((record) => record.status === 'failed').length,
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
