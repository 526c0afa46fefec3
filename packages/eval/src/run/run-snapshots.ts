import { runStatistics } from '../analysis/figures/run-metrics.ts'
import type { ItemEvent } from '../analysis/records/item-event.ts'
import { toRunDocument } from '../analysis/table/document-writer.ts'
import { RunTable } from '../analysis/table/run-table.ts'
import type { EvaluationStore } from '../store/write/run-store.ts'
import type { RunSnapshots } from '../store/write/snapshot-files.ts'
import type { EvaluationSnapshot } from './evaluation-state.ts'
import { costOfItems } from './stop-conditions.ts'

/** Keeps `index.jsonl`, `metrics.json` and `progress.json` of a run up to date. */
export class RunSnapshotFiles {
  readonly #store: EvaluationStore
  readonly #table: RunTable
  /** Events that are not in the table yet. */
  #added: ItemEvent[] = []

  constructor(store: EvaluationStore) {
    this.#store = store
    this.#table = tableOf(store)
  }

  /** Adds an event that is in the store. */
  add(event: ItemEvent): void {
    this.#added.push(event)
  }

  /** Writes them if they are due; `snapshot` is called only then. */
  async refresh(snapshot: () => EvaluationSnapshot): Promise<void> {
    await this.#store.refreshSnapshots(() => this.#texts(snapshot()))
  }

  async write(snapshot: EvaluationSnapshot): Promise<void> {
    await this.#store.writeSnapshots(() => this.#texts(snapshot))
  }

  #texts(snapshot: EvaluationSnapshot): RunSnapshots {
    this.#table.append(this.#added.splice(0))
    return {
      index: indexPieces(snapshot),
      metrics: toText(toDocument(snapshot, this.#store, this.#table)),
      progress: toText(toProgress(snapshot)),
    }
  }
}

/** The document of `metrics.json`: figures of the records, then statistics. */
export function metricsDocument(
  snapshot: EvaluationSnapshot,
  store: Pick<EvaluationStore, 'manifest' | 'events'>,
): Record<string, unknown> {
  return toDocument(snapshot, store, tableOf(store))
}

function tableOf({ manifest, events }: Pick<EvaluationStore, 'manifest' | 'events'>): RunTable {
  return new RunTable(toRunDocument(manifest, events.values()))
}

function toDocument(
  snapshot: EvaluationSnapshot,
  { events }: Pick<EvaluationStore, 'events'>,
  table: RunTable,
): Record<string, unknown> {
  return {
    ...toMetricsDocument(snapshot),
    total_cost_usd: costOfItems(events.values())?.usd ?? null,
    ...runStatistics(table),
  }
}

function toProgress(snapshot: EvaluationSnapshot): Record<string, unknown> {
  const { status, pending, durationMs, incompleteReason, model } = snapshot
  const done = model.summary.total_samples
  return {
    status,
    done,
    total: done + pending,
    failed: model.summary.failed,
    duration_ms: Math.round(durationMs),
    updated_at: new Date().toISOString(),
    ...(incompleteReason === null ? {} : { incomplete_reason: incompleteReason }),
  }
}

function toText(document: object): string {
  return `${JSON.stringify(document, null, 2)}\n`
}

/** Bytes. */
const pieceSize = 64 * 1024

/**
 * The text of `index.jsonl` in pieces: one line per item. A piece is overwritten when the next one is
 * requested: 100,000 lines as strings would be 100 MB of garbage.
 */
function* indexPieces({ items }: EvaluationSnapshot): Generator<Uint8Array, void> {
  let piece = Buffer.allocUnsafe(pieceSize)
  let length = 0
  for (const item of items) {
    const line = `${toIndexLine(item)}\n`
    const size = Buffer.byteLength(line)
    if (length + size > piece.length) {
      if (length > 0) yield piece.subarray(0, length)
      length = 0
      if (size > piece.length) piece = Buffer.allocUnsafe(size)
    }
    length += piece.write(line, length)
  }
  if (length > 0) yield piece.subarray(0, length)
}

// Keys, their order and the separators are those of the Python SDK's files.
function toIndexLine(item: ItemEvent): string {
  let line = `"row_index": ${item.row_index}, "run_index": ${item.run_index}, "source_row_index": ${item.source_row_index}`
  const add = (key: string, value: unknown): void => {
    if (value !== null) line += `, "${key}": ${JSON.stringify(value)}`
  }
  add('rollout_id', item.rollout_id)
  add('status', item.status)
  add('reward', item.reward)
  add('scores', item.scores ?? null)
  add('score_errors', item.score_errors ?? null)
  add('tokens', item.tokens ?? (item.calls > 0 ? 0 : null))
  add('duration_ms', item.duration_ms)
  add('error_type', item.error_type)
  add('error_message', item.error_message)
  add('sample_rewards', Object.keys(item.samples).length > 1 ? item.samples : null)
  return `{${line}}`
}

/** The first part of `metrics.json`. */
function toMetricsDocument(snapshot: EvaluationSnapshot): Record<string, unknown> {
  const { names, status, incompleteReason, startedAt, completedAt, model } = snapshot
  return {
    eval_run: {
      id: snapshot.id,
      status,
      name: names.run,
      dataset_name: names.dataset,
      model_name: model.name,
      rollout_name: names.rollout,
      duration_ms: toMilliseconds(snapshot.durationMs),
      started_at: startedAt.toISOString(),
      ...(completedAt === null ? {} : { completed_at: completedAt.toISOString() }),
      ...(incompleteReason === null ? {} : { incomplete_reason: incompleteReason }),
    },
    summary: model.summary,
  }
}

/** To the microsecond. */
function toMilliseconds(durationMs: number): number {
  return Math.round(durationMs * 1000) / 1000
}
