import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import path from 'node:path'

import { errorMessage } from '@osmosis/core'

import type { ItemEvent } from '../analysis/records/item-event.ts'
import type { RunManifest, RunRow } from '../analysis/records/run-manifest.ts'
import { alarmsOf } from '../analysis/training/findings/training-alarms.ts'
import { measureRollouts } from '../analysis/training/step-figures.ts'
import type { StepRecord } from '../analysis/training/training-records.ts'
import { type DatasetRow, toRunRow } from '../dataset/dataset-row.ts'
import { createRun, resumeRun } from '../store/write/create-run.ts'
import type { EndedItem, RunStore } from '../store/write/run-store.ts'

/** The rollouts that one version of the policy answered, as a run. */
export interface RecordedStepOptions {
  /** Folder of the runs. */
  readonly runs: string
  /** From 1. */
  readonly step: number
  /** As the calls named it. */
  readonly version: string
  readonly rollout: string
  readonly passThreshold: number
}

/** A rollout of a step, without its place there. */
export interface RecordedRollout {
  readonly row: RunRow
  readonly item: EndedItem
}

/** Writes the run of a version. */
export class RecordedStep {
  readonly step: number
  readonly version: string
  /** Whether rollouts ended since its record was written. */
  isChanged = false
  readonly #store: RunStore
  /** By row: the number of its next attempt. */
  readonly #attempts = new Map<number, number>()

  private constructor({ step, version }: RecordedStepOptions, store: RunStore) {
    this.step = step
    this.version = version
    this.#store = store
    for (const { source_row_index: row, run_index: attempt } of store.events.values()) {
      this.#attempts.set(row, Math.max(this.#attempts.get(row) ?? 0, attempt + 1))
    }
  }

  /** Creates the run, or continues it. */
  static async open(options: RecordedStepOptions): Promise<RecordedStep> {
    const { runs, step } = options
    const location = path.join(runs, stepName(step))
    const store = existsSync(location)
      ? await resumeRun({ location })
      : await createRun({ outputRoot: runs, manifest: manifestOf(options) })
    return new RecordedStep(options, store)
  }

  /**
   * Stores rollouts, each as the next attempt at its row. The manifest, which names all rows, is written once for all.
   * Resolves with why each is not stored; undefined for one that is.
   */
  async commit(rollouts: readonly RecordedRollout[]): Promise<(string | undefined)[]> {
    const attempts = rollouts.map(({ row: { source_row: row } }) => {
      const attempt = this.#attempts.get(row) ?? 0
      this.#attempts.set(row, attempt + 1)
      return attempt
    })
    const { rows } = await this.#store.grow({
      rows: [...new Map(rollouts.map(({ row }) => [row.source_row, row])).values()],
      n: Math.max(...attempts) + 1,
    })
    const places = new Map(rows.map(({ source_row: row }, place) => [row, place]))
    this.isChanged = true
    return Promise.all(
      rollouts.map(async ({ row: { source_row: row }, item }, at) => {
        const place = { row_index: places.get(row) ?? 0, run_index: attempts[at] ?? 0 }
        try {
          await this.#store.commit({ ...item, event: { ...item.event, ...place } })
          return undefined
        } catch (error) {
          return errorMessage(error)
        }
      }),
    )
  }

  record(earlier: readonly StepRecord[]): StepRecord {
    const { manifest, events } = this.#store
    const ended = [...events.values()]
    const { figures, rows, settledRows } = measureRollouts(manifest, ended, secondsOf(ended))
    const measured = {
      kind: 'step',
      step: this.step,
      phase: 'policy_gradient',
      run: stepName(this.step),
      version: this.step,
      sampledBy: this.step - 1,
      rollouts: figures,
      batch: {
        groups: rows.length,
        groupsWithSignal: rows.length - settledRows.length,
        sequences: 0,
        tokens: 0,
        stale: 0,
        splits: 0,
        withoutIds: 0,
        untrainable: 0,
      },
      update: null,
      rows,
      settledRows,
      endedAt: new Date().toISOString(),
    } as const
    return { ...measured, alarms: alarmsOf(measured, earlier) }
  }

  close(): Promise<void> {
    return this.#store.close()
  }
}

/** A row as runs of a record have it: equal prompts with equal labels are one row, whatever else is sent with them. */
export function recordedRow(row: DatasetRow): RunRow {
  const content = JSON.stringify([row.initialMessages, row.label])
  return { ...toRunRow(row), key: createHash('sha256').update(content).digest('hex').slice(0, 16) }
}

/** From the start of the first rollout to the end of the last. */
function secondsOf(events: readonly ItemEvent[]): number {
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const { ended_at: at, duration_ms: took } of events) {
    const end = Date.parse(at)
    first = Math.min(first, end - took)
    last = Math.max(last, end)
  }
  return events.length === 0 ? 0 : (last - first) / 1000
}

/** The name of the run of a step. */
export function stepName(step: number): string {
  return `step-${String(step).padStart(4, '0')}`
}

function manifestOf({ step, version, rollout, passThreshold }: RecordedStepOptions): RunManifest {
  return {
    schema_version: 1,
    local_run_id: randomBytes(16).toString('hex'),
    run_name: stepName(step),
    created_at: new Date().toISOString(),
    inputs: {
      model: { name: version, base_url: null, params: {} },
      dataset: { name: '', sha256: '' },
      code: { rollout, kind: 'workflow', entrypoint: '', sha256: '', scorers: [] },
      env: {},
      secrets: [],
      timeouts: { agent_seconds: null, grader_seconds: null, max_turns: null },
    },
    n: 1,
    pass_threshold: passThreshold,
    provenance: { sdk_version: '', node_version: process.version, config: null, git: null },
    rows: [],
  }
}
