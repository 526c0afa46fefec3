import path from 'node:path'

import { OsmosisError } from '@osmosis/core'

import type { ItemEvent } from '../analysis/item-event.ts'

/** Only the owner reads what a run holds: transcripts and datasets may be confidential. */
export const fileMode = 0o600
export const folderMode = 0o700

/** What lies in segments: what was said in the rollouts, and what the graders saw. */
export const segmentKinds = ['trajectories', 'samples'] as const
export type SegmentKind = (typeof segmentKinds)[number]

/** Names of the files of a run. */
export function runFiles(location: string): {
  readonly manifest: string
  readonly journal: string
  readonly notes: string
  readonly grades: string
  readonly index: string
  readonly metrics: string
  readonly progress: string
  readonly log: string
} {
  return {
    manifest: path.join(location, 'manifest.json'),
    journal: path.join(location, 'events.jsonl'),
    notes: path.join(location, 'notes.jsonl'),
    grades: path.join(location, 'grades'),
    index: path.join(location, 'index.jsonl'),
    metrics: path.join(location, 'metrics.json'),
    progress: path.join(location, 'progress.json'),
    log: path.join(location, 'logs.txt'),
  }
}

export function segmentFile(location: string, kind: SegmentKind, segment: number): string {
  return path.join(location, kind, `${String(segment).padStart(4, '0')}.jsonl`)
}

/** The number of a segment; undefined for other files. */
export function segmentOf(name: string): number | undefined {
  return /^\d{4,}\.jsonl$/.test(name) ? parseInt(name, 10) : undefined
}

/** What names an item: its row in the dataset, its attempt and, where two are compared, its model. */
export type ItemReference = Pick<ItemEvent, 'source_row_index' | 'run_index' | 'model_tag'>

/** The fields that name an item as one text, such as `12.0` or `12.0@baseline`. */
export function itemKey(item: ItemReference): string {
  const baseline = item.model_tag === 'baseline' ? '@baseline' : ''
  return `${item.source_row_index}.${item.run_index}${baseline}`
}

export function damagedRun(message: string, cause?: unknown): OsmosisError {
  return new OsmosisError('damaged_run', message, cause === undefined ? {} : { cause })
}
