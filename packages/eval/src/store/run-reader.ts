import { closeSync, openSync, readSync, type Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { crc32 } from 'node:zlib'

import { isOsmosisError } from '@osmosis/core'
import type { Trajectory } from '@osmosis/core/trajectory'

import type { ItemEvent, SegmentPlace } from '../analysis/item-event.ts'
import type { RunManifest } from '../analysis/run-manifest.ts'
import type { RunNote } from '../analysis/run-note.ts'
import { type JournalPosition, readJournal } from './journal.ts'
import { readManifest } from './manifest-file.ts'
import { damagedRun, itemKey, runFiles, segmentFile, type SegmentKind } from './run-files.ts'
import { type RunWriter, writerOf } from './run-lock.ts'
import type { GradedRollout } from './run-store.ts'
import { searchTrajectories } from './search-trajectories.ts'
import {
  appendGrades,
  appendNote,
  type Grade,
  gradingNames,
  readGrades,
  readNotes,
  replaceGrades,
} from './side-files.ts'

/** Something that an event refers to. */
export type Stored<T> =
  | { readonly state: 'found'; readonly value: T }
  /** Nothing was stored, or its file is gone. */
  | { readonly state: 'missing' }
  /** What is there is not what was written. */
  | { readonly state: 'damaged' }

/** Reads a run, also while another process writes to it. Nothing has to be closed. */
export interface RunReader {
  /** The folder; absolute. */
  readonly location: string
  /** The name of the folder. */
  readonly name: string
  /** As of the last refresh. */
  readonly manifest: RunManifest
  /** The last event of each item that has ended, by `itemKey`; as of the last refresh. */
  readonly events: ReadonlyMap<string, ItemEvent>
  /** The same by row, attempt and model. */
  readonly sortedEvents: readonly ItemEvent[]
  /**
   * Reads what was written since the last time, and resolves with the events among it. A journal that
   * has been replaced, which a new run of the same name does, is read from its beginning.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  refresh(): Promise<readonly ItemEvent[]>
  /** Who writes to the run; null when nobody does. One on another host may be gone. */
  writer(): RunWriter | null
  /** What was said in a rollout, by sample id. */
  trajectories(event: ItemEvent): Promise<Stored<Readonly<Record<string, Trajectory>>>>
  /** What the grader saw of a rollout. */
  graded(event: ItemEvent): Promise<Stored<GradedRollout>>
  /**
   * The events of the rollouts in which `text` was said, in the order in which they were written;
   * upper and lower case are the same. Names of fields do not count.
   */
  search(text: string, options?: { readonly signal?: AbortSignal }): AsyncGenerator<ItemEvent>
  /** In the order in which they were added. */
  notes(): Promise<RunNote[]>
  /** @throws OsmosisError with code `storage_error` */
  addNote(note: Omit<RunNote, 'at'>): Promise<RunNote>
  /** The names of the re-gradings, sorted. */
  gradings(): Promise<string[]>
  /** The last grade of each item, by `itemKey`; empty for a grading that does not exist. */
  grades(grading: string): Promise<Map<string, Grade>>
  /**
   * Adds to a re-grading, which begins with its first grades.
   *
   * @throws OsmosisError with code `invalid_config` for a bad name, `storage_error`
   */
  addGrades(grading: string, grades: readonly Grade[]): Promise<void>
  /** Makes these all grades of a re-grading. Throws what `addGrades` throws. */
  replaceGrades(grading: string, grades: readonly Grade[]): Promise<void>
}

/**
 * Opens the run in a folder for reading.
 *
 * @throws OsmosisError with code `damaged_run` when there is no run, or its manifest or a line of its
 * journal cannot be read
 */
export async function openRun(location: string): Promise<RunReader> {
  const reader = new FolderReader(path.resolve(location), await readManifest(location))
  await reader.refresh()
  return reader
}

const start: JournalPosition = { offset: 0, line: 0 }

class FolderReader implements RunReader {
  readonly location: string
  readonly name: string
  readonly #journal: string
  #manifest: RunManifest
  #events = new Map<string, ItemEvent>()
  #sorted: readonly ItemEvent[] | undefined
  #position = start
  /** Which file the journal was. */
  #journalId: string | undefined
  #manifestId: string | undefined
  #refreshing: Promise<readonly ItemEvent[]> | undefined

  constructor(location: string, manifest: RunManifest) {
    this.location = location
    this.name = path.basename(location)
    this.#journal = runFiles(location).journal
    this.#manifest = manifest
  }

  get manifest(): RunManifest {
    return this.#manifest
  }

  get events(): ReadonlyMap<string, ItemEvent> {
    return this.#events
  }

  get sortedEvents(): readonly ItemEvent[] {
    return (this.#sorted ??= [...this.#events.values()].toSorted(
      (a, b) =>
        a.row_index - b.row_index ||
        a.run_index - b.run_index ||
        Number(a.model_tag === 'baseline') - Number(b.model_tag === 'baseline'),
    ))
  }

  async refresh(): Promise<readonly ItemEvent[]> {
    // One after the other: each goes on where the one before ended.
    const before = this.#refreshing
    const own = (async () => {
      await before?.catch(() => {
        // Whoever asked for it hears of it.
      })
      return this.#refresh()
    })()
    this.#refreshing = own
    return own
  }

  writer(): RunWriter | null {
    return writerOf(this.location)
  }

  async trajectories(event: ItemEvent): Promise<Stored<Readonly<Record<string, Trajectory>>>> {
    const line = readStored(this.location, 'trajectories', event.at)
    if (line.state !== 'found') return line
    const { samples } = line.value as { samples: Readonly<Record<string, Trajectory>> }
    return { state: 'found', value: samples }
  }

  async graded(event: ItemEvent): Promise<Stored<GradedRollout>> {
    const line = readStored(this.location, 'samples', event.sat)
    if (line.state !== 'found') return line
    const { rollout_id: _, ...graded } = line.value as GradedRollout & { rollout_id: string }
    return { state: 'found', value: graded }
  }

  search(
    text: string,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<ItemEvent> {
    return searchTrajectories(this.location, this.#events.values(), text, signal)
  }

  notes(): Promise<RunNote[]> {
    return readNotes(this.location)
  }

  addNote(note: Omit<RunNote, 'at'>): Promise<RunNote> {
    return appendNote(this.location, note)
  }

  gradings(): Promise<string[]> {
    return gradingNames(this.location)
  }

  grades(grading: string): Promise<Map<string, Grade>> {
    return readGrades(this.location, grading)
  }

  addGrades(grading: string, grades: readonly Grade[]): Promise<void> {
    return appendGrades(this.location, grading, grades)
  }

  replaceGrades(grading: string, grades: readonly Grade[]): Promise<void> {
    return replaceGrades(this.location, grading, grades)
  }

  async #refresh(): Promise<readonly ItemEvent[]> {
    const journal = await this.#stat(this.#journal)
    // Numbers of files are given again.
    const id = `${journal.dev}:${journal.ino}:${journal.birthtimeMs}`
    const isReplaced = id !== this.#journalId || journal.size < this.#position.offset
    this.#journalId = id
    await this.#refreshManifest()
    if (isReplaced) return this.#readAgain()
    if (journal.size === this.#position.offset) return []
    try {
      return await this.#readOn()
    } catch (error) {
      // A writer on a full disk takes back lines that it could not make durable. Whoever read them
      // before that is now in the middle of another line.
      if (isOsmosisError(error) && error.code === 'damaged_run') return this.#readAgain()
      throw error
    }
  }

  async #refreshManifest(): Promise<void> {
    const { ino, mtimeMs } = await this.#stat(runFiles(this.location).manifest)
    const id = `${ino}:${mtimeMs}`
    if (id !== this.#manifestId) this.#manifest = await readManifest(this.location)
    this.#manifestId = id
  }

  #readAgain(): Promise<readonly ItemEvent[]> {
    this.#events = new Map()
    this.#sorted = undefined
    this.#position = start
    return this.#readOn()
  }

  async #readOn(): Promise<readonly ItemEvent[]> {
    const read: ItemEvent[] = []
    for await (const [event, after] of readJournal(this.#journal, this.#position)) {
      this.#events.set(itemKey(event), event)
      this.#sorted = undefined
      this.#position = after
      read.push(event)
    }
    return read
  }

  async #stat(file: string): Promise<Stats> {
    try {
      return await stat(file)
    } catch (cause) {
      throw damagedRun(`The run ${this.location} has no ${path.basename(file)}.`, cause)
    }
  }
}

/**
 * Blocks for the time of the read, a few microseconds from the system's cache: several times as long
 * would go by in handing three steps to other threads.
 */
function readStored(
  location: string,
  kind: SegmentKind,
  place: SegmentPlace | null,
): Stored<unknown> {
  if (place === null) return { state: 'missing' }
  const [segment, offset, length, crc] = place
  const bytes = Buffer.allocUnsafe(length)
  let descriptor: number
  try {
    descriptor = openSync(segmentFile(location, kind, segment), 'r')
  } catch {
    return { state: 'missing' }
  }
  try {
    const bytesRead = readSync(descriptor, bytes, 0, length, offset)
    if (bytesRead < length || crc32(bytes) !== crc) return { state: 'damaged' }
    return { state: 'found', value: JSON.parse(bytes.toString()) }
  } catch {
    return { state: 'damaged' }
  } finally {
    closeSync(descriptor)
  }
}
