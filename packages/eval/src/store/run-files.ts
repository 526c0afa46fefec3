import path from 'node:path'

import { isOsmosisError, OsmosisError } from '@osmosis/core'
import { failedWrite } from '@osmosis/protocol/files'

import type { ItemEvent } from '../analysis/records/item-event.ts'

/** Only the owner may read a run: transcripts and datasets may be confidential. */
export const fileMode = 0o600
export const folderMode = 0o700

/** The data in segments: conversations of the rollouts, and the samples that the graders saw. */
export type SegmentKind = 'trajectories' | 'samples'
export const segmentKinds: readonly SegmentKind[] = ['trajectories', 'samples']

/** Paths of the files of a run. */
export function runFiles(location: string): {
  readonly manifest: string
  readonly journal: string
  readonly notes: string
  readonly verdicts: string
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
    verdicts: path.join(location, 'verdicts.jsonl'),
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

/** Orders events by row and attempt. */
export function compareEvents(a: ItemEvent, b: ItemEvent): number {
  return a.row_index - b.row_index || a.run_index - b.run_index
}

export function damagedRun(message: string, cause?: unknown): OsmosisError {
  return new OsmosisError('damaged_run', message, cause === undefined ? {} : { cause })
}

/** The error of a failed write to a file of a run; that of a lock that another process has taken over stays as it is. */
export async function storageError(file: string, cause: unknown): Promise<OsmosisError> {
  if (isOsmosisError(cause)) return cause
  const stored = 'Items that have ended are stored'
  return failedWrite(
    file,
    cause,
    `${stored}; free some space and start the run again to complete it.`,
  )
}
