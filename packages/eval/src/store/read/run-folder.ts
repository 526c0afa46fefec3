import { closeSync, openSync, readSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { crc32 } from 'node:zlib'

import type { LockOwner } from '@osmosis/protocol/files'
import type { Trajectory } from '@osmosis/protocol/trajectory'

import type { AuditVerdict } from '../../analysis/records/audit-finding.ts'
import { isThrown } from '../../analysis/records/error-text.ts'
import type { ItemEvent, RunNote, SegmentPlace } from '../../analysis/records/item-event.ts'
import type { RunManifest } from '../../analysis/records/run-manifest.ts'
import { fromJournalLine, JournalFollower, type JournalPlace } from '../journal.ts'
import { readManifest } from '../manifest-file.ts'
import { damagedRun, runFiles, segmentFile, type SegmentKind } from '../run-files.ts'
import { writerOf } from '../run-lock.ts'
import {
  appendGrades,
  appendNote,
  appendVerdicts,
  type Grade,
  gradingNames,
  readGrades,
  readNotes,
  readVerdicts,
  replaceGrades,
} from '../side-files.ts'
import type { GradedRollout } from '../write/run-store.ts'
import { RunLog } from './run-log.ts'
import { searchTrajectories } from './search-trajectories.ts'

/** Stored data to which an event refers. */
export type Stored<T> =
  | { readonly state: 'found'; readonly value: T }
  /** Nothing was stored, or its file was removed. */
  | { readonly state: 'missing' }
  /** The stored bytes are not those that were written. */
  | { readonly state: 'damaged' }

/** The files of a run, also while another process writes to it. It holds no file open. */
export class RunFolder {
  /** Absolute. */
  readonly location: string
  /** The name of the folder. */
  readonly name: string
  #manifest: RunManifest
  #manifestId: string | undefined
  readonly #log: RunLog

  /** Use {@link openRunFolder}. */
  constructor(location: string, manifest: RunManifest) {
    this.location = location
    this.name = path.basename(location)
    this.#log = new RunLog(runFiles(location).log)
    this.#manifest = manifest
  }

  /** As of the last refresh. */
  get manifest(): RunManifest {
    return this.#manifest
  }

  /**
   * Reads the manifest again if it has been written since.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  async refreshManifest(): Promise<void> {
    const file = runFiles(this.location).manifest
    const found = await stat(file).catch((cause: unknown) => {
      throw damagedRun(`The run ${this.location} has no manifest.json.`, cause)
    })
    const id = `${found.ino}:${found.mtimeMs}`
    if (id !== this.#manifestId) this.#manifest = await readManifest(this.location)
    this.#manifestId = id
  }

  /** A reader of the journal that starts at its beginning and stores no event. */
  followJournal(): JournalFollower {
    return new JournalFollower(this.location)
  }

  /** The event at a place that a follower reported; missing when its line no longer exists. */
  async event({ offset, length }: JournalPlace): Promise<Stored<ItemEvent>> {
    const bytes = readBytes(runFiles(this.location).journal, offset, length)
    if (bytes === undefined) return { state: 'missing' }
    const event = fromJournalLine(bytes.toString().trimEnd())
    return event === undefined ? { state: 'damaged' } : { state: 'found', value: event }
  }

  /** The process that writes to the run; null when none does, which is seen 15 s after a kill on another host. */
  writer(): LockOwner | null {
    return writerOf(this.location)
  }

  /** The conversations of a rollout, by sample id. */
  async trajectories({
    trajectory_place: place,
  }: Pick<ItemEvent, 'trajectory_place'>): Promise<Stored<Readonly<Record<string, Trajectory>>>> {
    const line = readStored(this.location, 'trajectories', place)
    if (line.state !== 'found') return line
    const { samples } = line.value as { samples: Readonly<Record<string, Trajectory>> }
    return { state: 'found', value: samples }
  }

  /**
   * The stack of what user code threw in a rollout, from `logs.txt`; undefined when it is not logged, as for
   * rollouts on a server that was already running.
   */
  async stack(event: Pick<ItemEvent, 'rollout_id' | 'error_message'>): Promise<string | undefined> {
    return isThrown(event.error_message ?? '') ? this.#log.stackOf(event) : undefined
  }

  /** The last error of a rollout in `logs.txt`, on one line; undefined for none. Also for a rollout that succeeded. */
  loggedError(event: Pick<ItemEvent, 'rollout_id'>): Promise<string | undefined> {
    return this.#log.errorOf(event)
  }

  /**
   * What ended `run()` of a rollout that is graded all the same, by a `limit` or a `model_error`: the error from `logs.txt`. Undefined
   * where nothing did, or it is not logged.
   */
  async earlyEnd(
    event: Pick<ItemEvent, 'rollout_id' | 'limit' | 'model_error'>,
  ): Promise<string | undefined> {
    const hasEnded = event.limit !== undefined || event.model_error !== undefined
    return hasEnded ? this.#log.warningOf(event) : undefined
  }

  /** The samples of a rollout that the grader saw. */
  async graded({
    sample_place: place,
  }: Pick<ItemEvent, 'sample_place'>): Promise<Stored<GradedRollout>> {
    const line = readStored(this.location, 'samples', place)
    if (line.state !== 'found') return line
    const { rollout_id: _, ...graded } = line.value as GradedRollout & { rollout_id: string }
    return { state: 'found', value: graded }
  }

  /** The items whose conversations contain `text`, in the order in which they were written; ignores case. */
  searchIn<T extends Pick<ItemEvent, 'trajectory_place'>>(
    items: Iterable<T>,
    text: string,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<T> {
    return searchTrajectories(this.location, items, text, signal)
  }

  /** In the order in which they were added. */
  notes(): Promise<RunNote[]> {
    return readNotes(this.location)
  }

  /** @throws OsmosisError with code `storage_error` */
  addNote(note: Omit<RunNote, 'at'>): Promise<RunNote> {
    return appendNote(this.location, note)
  }

  /** What reviewers decided about findings of `auditRun`, in the order in which they did. */
  verdicts(): Promise<AuditVerdict[]> {
    return readVerdicts(this.location)
  }

  /** @throws OsmosisError with code `storage_error` */
  addVerdicts(verdicts: readonly Omit<AuditVerdict, 'at'>[]): Promise<void> {
    return appendVerdicts(this.location, verdicts)
  }

  /** The names of the re-gradings, sorted. */
  gradings(): Promise<string[]> {
    return gradingNames(this.location)
  }

  /** The last grade of each item, by `itemKey`; empty for a grading that does not exist. */
  grades(grading: string): Promise<Map<string, Grade>> {
    return readGrades(this.location, grading)
  }

  /**
   * Appends to a re-grading, which is created by its first grades.
   *
   * @throws OsmosisError with code `invalid_config` for a bad name, `storage_error`
   */
  addGrades(grading: string, grades: readonly Grade[]): Promise<void> {
    return appendGrades(this.location, grading, grades)
  }

  /** Replaces all grades of a re-grading. Throws what `addGrades` throws. */
  replaceGrades(grading: string, grades: readonly Grade[]): Promise<void> {
    return replaceGrades(this.location, grading, grades)
  }
}

/**
 * Opens the folder of a run and reads its manifest, but no events.
 *
 * @throws OsmosisError with code `damaged_run` when there is no run, or its manifest cannot be read
 */
export async function openRunFolder(location: string): Promise<RunFolder> {
  return new RunFolder(path.resolve(location), await readManifest(location))
}

function readStored(
  location: string,
  kind: SegmentKind,
  place: SegmentPlace | null,
): Stored<unknown> {
  if (place === null) return { state: 'missing' }
  const [segment, offset, length, crc] = place
  try {
    const bytes = readBytes(segmentFile(location, kind, segment), offset, length)
    if (bytes === undefined) return { state: 'missing' }
    if (bytes.length < length || crc32(bytes) !== crc) return { state: 'damaged' }
    return { state: 'found', value: JSON.parse(bytes.toString()) }
  } catch {
    return { state: 'damaged' }
  }
}

/**
 * Up to `length` bytes; undefined without the file. Synchronous, because a read from the system's cache takes
 * a few microseconds and three asynchronous calls take several times as long.
 */
function readBytes(file: string, offset: number, length: number): Buffer | undefined {
  let descriptor: number
  try {
    descriptor = openSync(file, 'r')
  } catch {
    return undefined
  }
  try {
    const bytes = Buffer.allocUnsafe(length)
    return bytes.subarray(0, readSync(descriptor, bytes, 0, length, offset))
  } finally {
    closeSync(descriptor)
  }
}
