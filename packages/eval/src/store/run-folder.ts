import { closeSync, openSync, readSync, type Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { crc32 } from 'node:zlib'

import { isOsmosisError } from '@osmosis/core'
import type { Trajectory } from '@osmosis/runtime/trajectory'

import type { ItemEvent, SegmentPlace } from '../analysis/item-event.ts'
import type { RunManifest } from '../analysis/run-manifest.ts'
import type { RunNote } from '../analysis/run-note.ts'
import { isThrown } from '../analysis/thrown-error.ts'
import { fromJournalLine } from './journal-line.ts'
import { type JournalPosition, readJournal } from './journal.ts'
import { readManifest } from './manifest-file.ts'
import { damagedRun, runFiles, segmentFile, type SegmentKind } from './run-files.ts'
import { type RunWriter, writerOf } from './run-lock.ts'
import { RunLog } from './run-log.ts'
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

/** Who is given the events of a journal. */
export interface JournalVisitor {
  /** The journal is read from its beginning: what was given before does not count. */
  begin(): void
  /** The next event, and where its line is; the last one of an item counts. */
  take(event: ItemEvent, place: JournalPlace): void
}

/** A line of a journal. */
export interface JournalPlace {
  /** Bytes. */
  readonly offset: number
  /** With its newline. Bytes. */
  readonly length: number
}

const start: JournalPosition = { offset: 0, line: 0 }

/** Reads a journal piece by piece while it grows, and keeps no event. */
export class JournalFollower {
  readonly #location: string
  #position = start
  /** Which file the journal was. */
  #id: string | undefined

  constructor(location: string) {
    this.#location = location
  }

  /**
   * Gives what was written since the last time. A journal that has been replaced, which a new run of the
   * same name does, is given from its beginning. One call at a time.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  async read(visitor: JournalVisitor): Promise<void> {
    const journal = await this.#stat()
    // Numbers of files are given again.
    const id = `${journal.dev}:${journal.ino}:${journal.birthtimeMs}`
    const isReplaced = id !== this.#id || journal.size < this.#position.offset
    this.#id = id
    if (isReplaced) return this.#readAgain(visitor)
    if (journal.size === this.#position.offset) return
    try {
      await this.#readOn(visitor)
    } catch (error) {
      // A writer on a full disk takes back lines that it could not make durable. Whoever read them
      // before that is now in the middle of another line.
      if (!isOsmosisError(error) || error.code !== 'damaged_run') throw error
      await this.#readAgain(visitor)
    }
  }

  #readAgain(visitor: JournalVisitor): Promise<void> {
    this.#position = start
    visitor.begin()
    return this.#readOn(visitor)
  }

  async #readOn(visitor: JournalVisitor): Promise<void> {
    for await (const [event, after] of readJournal(
      runFiles(this.#location).journal,
      this.#position,
    )) {
      const { offset } = this.#position
      this.#position = after
      visitor.take(event, { offset, length: after.offset - offset })
    }
  }

  async #stat(): Promise<Stats> {
    try {
      return await stat(runFiles(this.#location).journal)
    } catch (cause) {
      throw damagedRun(`The run ${this.#location} has no events.jsonl.`, cause)
    }
  }
}

/** Something that an event refers to. */
export type Stored<T> =
  | { readonly state: 'found'; readonly value: T }
  /** Nothing was stored, or its file is gone. */
  | { readonly state: 'missing' }
  /** What is there is not what was written. */
  | { readonly state: 'damaged' }

/** The files of a run, also while another process writes to it. Nothing has to be closed. */
export interface RunFolder {
  /** Absolute. */
  readonly location: string
  /** The name of the folder. */
  readonly name: string
  /** As of the last refresh. */
  readonly manifest: RunManifest
  /**
   * Reads the manifest again if it has been written since.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  refreshManifest(): Promise<void>
  /** A reader of the journal that begins at its beginning, and keeps no event. */
  followJournal(): JournalFollower
  /** An event where a follower has seen it; missing when its line is not there any more. */
  event(place: JournalPlace): Promise<Stored<ItemEvent>>
  /** Who writes to the run; null when nobody does. One on another host may be gone. */
  writer(): RunWriter | null
  /** What was said in a rollout, by sample id. */
  trajectories(event: Pick<ItemEvent, 'at'>): Promise<Stored<Readonly<Record<string, Trajectory>>>>
  /**
   * The stack of what user code threw in a rollout, as `logs.txt` has it; undefined when it is not there, as
   * of rollouts on a server that was up already.
   */
  stack(event: Pick<ItemEvent, 'rollout_id' | 'error_message'>): Promise<string | undefined>
  /** What the grader saw of a rollout. */
  graded(event: Pick<ItemEvent, 'sat'>): Promise<Stored<GradedRollout>>
  /**
   * Those of the items in which `text` was said, in the order in which they were written; upper and
   * lower case are the same. Names of fields do not count.
   */
  searchIn<T extends Pick<ItemEvent, 'at'>>(
    items: Iterable<T>,
    text: string,
    options?: { readonly signal?: AbortSignal },
  ): AsyncGenerator<T>
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
 * Opens the folder of a run and reads its manifest, and none of its events.
 *
 * @throws OsmosisError with code `damaged_run` when there is no run, or its manifest cannot be read
 */
export async function openRunFolder(location: string): Promise<RunFolder> {
  return new FilesOfRun(path.resolve(location), await readManifest(location))
}

/** Reads and writes the files of a run beside its journal. */
export class FilesOfRun implements RunFolder {
  readonly location: string
  readonly name: string
  #manifest: RunManifest
  #manifestId: string | undefined
  readonly #log: RunLog

  constructor(location: string, manifest: RunManifest) {
    this.location = location
    this.name = path.basename(location)
    this.#log = new RunLog(runFiles(location).log)
    this.#manifest = manifest
  }

  get manifest(): RunManifest {
    return this.#manifest
  }

  async refreshManifest(): Promise<void> {
    const file = runFiles(this.location).manifest
    const found = await stat(file).catch((cause: unknown) => {
      throw damagedRun(`The run ${this.location} has no manifest.json.`, cause)
    })
    const id = `${found.ino}:${found.mtimeMs}`
    if (id !== this.#manifestId) this.#manifest = await readManifest(this.location)
    this.#manifestId = id
  }

  followJournal(): JournalFollower {
    return new JournalFollower(this.location)
  }

  async event({ offset, length }: JournalPlace): Promise<Stored<ItemEvent>> {
    const bytes = readBytes(runFiles(this.location).journal, offset, length)
    if (bytes === undefined) return { state: 'missing' }
    const event = fromJournalLine(bytes.toString().trimEnd())
    return event === undefined ? { state: 'damaged' } : { state: 'found', value: event }
  }

  writer(): RunWriter | null {
    return writerOf(this.location)
  }

  async trajectories({
    at,
  }: Pick<ItemEvent, 'at'>): Promise<Stored<Readonly<Record<string, Trajectory>>>> {
    const line = readStored(this.location, 'trajectories', at)
    if (line.state !== 'found') return line
    const { samples } = line.value as { samples: Readonly<Record<string, Trajectory>> }
    return { state: 'found', value: samples }
  }

  async stack(event: Pick<ItemEvent, 'rollout_id' | 'error_message'>): Promise<string | undefined> {
    return isThrown(event.error_message ?? '') ? this.#log.stackOf(event) : undefined
  }

  async graded({ sat }: Pick<ItemEvent, 'sat'>): Promise<Stored<GradedRollout>> {
    const line = readStored(this.location, 'samples', sat)
    if (line.state !== 'found') return line
    const { rollout_id: _, ...graded } = line.value as GradedRollout & { rollout_id: string }
    return { state: 'found', value: graded }
  }

  searchIn<T extends Pick<ItemEvent, 'at'>>(
    items: Iterable<T>,
    text: string,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<T> {
    return searchTrajectories(this.location, items, text, signal)
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
 * As many as there are; undefined without the file. Blocks for the time of the read, a few microseconds
 * from the system's cache: several times as long would go by in handing three steps to other threads.
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
