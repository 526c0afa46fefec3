import { existsSync, mkdirSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { crc32 } from 'node:zlib'

import type { TrainedConversation } from '@osmosis/core/policy'
import type { FolderLock } from '@osmosis/protocol/files'
import type { Trajectory } from '@osmosis/protocol/trajectory'

import { type ItemEvent, itemKey, type SegmentPlace } from '../../analysis/records/item-event.ts'
import type { RunManifest } from '../../analysis/records/run-manifest.ts'
import { toJournalLine, readJournal } from '../journal.ts'
import { grown, type RunGrowth, writeManifest } from '../manifest-file.ts'
import {
  folderMode,
  runFiles,
  segmentFile,
  type SegmentKind,
  segmentOf,
  storageError,
} from '../run-files.ts'
import { AppendFile } from './append-file.ts'
import { SnapshotFiles, type RunSnapshots } from './snapshot-files.ts'

/** Beyond this number of distinct parts, no more are shared. */
const maxParts = 10_000

/** Lets events share equal parts, such as `{ stop: 1 }`, because a run holds all its events in memory. */
class SharedParts {
  readonly #parts = new Map<string, unknown>()

  /** The same event with shared parts. */
  share(event: ItemEvent): ItemEvent {
    return {
      ...event,
      samples: this.#shared(event.samples),
      finish: this.#shared(event.finish),
      ...(event.versions && { versions: this.#shared(event.versions) }),
      ...(event.purposes && { purposes: this.#shared(event.purposes) }),
      tools: this.#shared(event.tools),
      metrics: this.#shared(event.metrics),
    }
  }

  #shared<T extends object>(part: T): T {
    const text = JSON.stringify(part)
    const known = this.#parts.get(text)
    if (known !== undefined) return known as T
    if (this.#parts.size < maxParts) this.#parts.set(text, part)
    return part
  }
}

/** A sample as the grader saw it. */
export interface GradedSample {
  /** In the form of the agent framework. */
  readonly messages: readonly unknown[]
  /** The label of the sample, not of the row. */
  readonly label: string | null
  readonly metrics: Readonly<Record<string, unknown>>
  readonly extra_fields: Readonly<Record<string, unknown>>
  /** Removed from training by the workflow or the grader. Default: false. */
  readonly removed?: true
}

/** A conversation in chat completions form, as it was sent to the policy and answered. */
export interface WireConversation {
  /** Omitted where they equal those of the sample. */
  readonly messages?: readonly unknown[]
  /** Of the latest request that had any. */
  readonly tools?: readonly unknown[]
  /**
   * As training data: several conversations where history was rewritten. Omitted where it is this conversation
   * with every message of the assistant.
   */
  readonly trained?: readonly TrainedConversation[]
}

/** A rollout as the grader saw it: enough to grade it again. */
export interface GradedRollout {
  readonly label: string | null
  readonly metadata: Readonly<Record<string, unknown>> | null
  /** Other columns of the row, which eval functions receive. Default: none. */
  readonly other_columns?: Readonly<Record<string, unknown>>
  /** The folder of its artifacts, relative to the run's; null without one. */
  readonly artifacts: string | null
  /** By sample id. */
  readonly samples: Readonly<Record<string, GradedSample>>
  /** By sample id, for samples that were recorded at the policy. Default: none. */
  readonly wire?: Readonly<Record<string, WireConversation>>
}

/** An item that has ended. */
export interface EndedItem {
  /** The places of the other data are added when it is written. */
  readonly event: Omit<ItemEvent, 'trajectory_place' | 'sample_place'>
  /** The conversations, by sample id; null when there are none. */
  readonly trajectories: Readonly<Record<string, Trajectory>> | null
  /** Null when the rollout has nothing to grade. */
  readonly graded: GradedRollout | null
}

/** How `createRun` and `resumeRun` open a store. */
export interface OpenStoreOptions {
  readonly location: string
  readonly manifest: RunManifest
  readonly lock: FolderLock
  readonly snapshotIntervalMs: number
}

/** Reads the events of the run and removes data that was never acknowledged. */
export async function openStore(options: OpenStoreOptions): Promise<RunStore> {
  const { location } = options
  const { journal } = runFiles(location)
  const events = new Map<string, ItemEvent>()
  const parts = new SharedParts()
  const ends = { trajectories: new Map<number, number>(), samples: new Map<number, number>() }
  let end = 0
  for await (const [event, after] of readJournal(journal)) {
    events.set(itemKey(event), parts.share(event))
    noteEnd(ends.trajectories, event.trajectory_place)
    noteEnd(ends.samples, event.sample_place)
    end = after.offset
  }
  truncateSync(journal, end)
  await removeUnfinished(location)
  return new RunStore(options, events, ends)
}

/** Removes what `writeFileAtomically` was writing when the process was killed. */
async function removeUnfinished(location: string): Promise<void> {
  for (const name of await readdir(location)) {
    if (/\.[0-9a-f-]{36}\.tmp$/.test(name)) await rm(path.join(location, name), { force: true })
  }
}

function noteEnd(ends: Map<number, number>, place: ItemEvent['sample_place']): void {
  if (place === null) return
  const [segment, offset, length] = place
  ends.set(segment, Math.max(ends.get(segment) ?? 0, offset + length))
}

/** The part of a store that an evaluation uses. */
export type EvaluationStore = Pick<
  RunStore,
  'location' | 'manifest' | 'events' | 'commit' | 'refreshSnapshots' | 'writeSnapshots'
>

/** Writes the folder of a run. Only one store of a run is open at a time, see `createRun` and `resumeRun`. */
export class RunStore {
  /** The folder; absolute. */
  readonly location: string
  /** Held until the store is closed. */
  readonly lock: FolderLock
  /** The last event of each item that has ended, by `itemKey`. */
  readonly events: ReadonlyMap<string, ItemEvent>
  readonly #events: Map<string, ItemEvent>
  readonly #parts = new SharedParts()
  readonly #journal: AppendFile
  readonly #trajectories: SegmentWriter
  readonly #samples: SegmentWriter
  readonly #snapshots: SnapshotFiles
  readonly #commits = new Set<Promise<unknown>>()
  #manifest: RunManifest
  #failure: Error | undefined
  #closed: Promise<void> | undefined

  /** Use `createRun` or `resumeRun`. */
  constructor(
    { location, manifest, lock, snapshotIntervalMs }: OpenStoreOptions,
    events: Map<string, ItemEvent>,
    ends: Readonly<Record<SegmentKind, ReadonlyMap<number, number>>>,
  ) {
    this.location = location
    this.#manifest = manifest
    this.events = this.#events = events
    this.lock = lock
    this.#snapshots = new SnapshotFiles(location, lock, snapshotIntervalMs)
    const fail = (error: Error): void => this.#fail(error)
    this.#trajectories = new SegmentWriter(location, lock, 'trajectories', ends.trajectories, fail)
    this.#samples = new SegmentWriter(location, lock, 'samples', ends.samples, fail)
    this.#journal = new AppendFile(runFiles(location).journal, lock, fail)
  }

  get manifest(): RunManifest {
    return this.#manifest
  }

  /**
   * Resolves with the whole event when the item survives a crash of the process and of the machine.
   * Concurrent commits share their writes.
   *
   * @throws OsmosisError with code `storage_error` when it cannot be written: it names the file and
   * the free space; `run_locked` when another process has taken over the run. The item is not stored, and every further
   * commit is refused with the same error
   * @throws TypeError when the store is closed, or the item has no JSON form
   */
  async commit(item: EndedItem): Promise<ItemEvent> {
    if (this.#closed !== undefined) throw new TypeError(`The run ${this.location} is closed.`)
    const committed = this.#write(item)
    this.#commits.add(committed)
    try {
      return await committed
    } finally {
      this.#commits.delete(committed)
    }
  }

  /**
   * Adds rows or attempts, or changes the threshold. Rows keep their places; new ones are appended.
   *
   * @throws OsmosisError with code `storage_error`, `run_locked`
   */
  async grow(growth: RunGrowth): Promise<RunManifest> {
    const manifest = grown(this.#manifest, growth)
    if (manifest === this.#manifest) return manifest
    try {
      this.lock.assertHeld()
    } catch (cause) {
      throw await storageError(runFiles(this.location).manifest, cause)
    }
    await writeManifest(this.location, manifest)
    return (this.#manifest = manifest)
  }

  /**
   * Writes `index.jsonl`, `metrics.json` and `progress.json` when they are due, in at most a twentieth of
   * the time; `texts` is called only then.
   *
   * @throws OsmosisError with code `storage_error`, `run_locked`
   */
  refreshSnapshots(texts: () => RunSnapshots): Promise<void> {
    return this.#snapshots.refresh(texts)
  }

  /** Writes them now. Throws what `refreshSnapshots` throws. */
  writeSnapshots(texts: () => RunSnapshots): Promise<void> {
    return this.#snapshots.write(texts)
  }

  /** Why nothing can be stored any more, see `commit`; undefined while it can. */
  get failure(): Error | undefined {
    return this.#failure
  }

  /** Waits for pending commits, and releases the run to other processes. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #write({ event, trajectories, graded }: EndedItem): Promise<ItemEvent> {
    const { rollout_id } = event
    // Both before either is written: a failed conversion must not leave half of the item behind.
    const conversations = trajectories && JSON.stringify({ rollout_id, samples: trajectories })
    const samples = graded && JSON.stringify({ rollout_id, ...graded })
    if (this.#failure !== undefined) throw this.#failure
    const [trajectory_place, sample_place] = await Promise.all([
      conversations === null ? null : this.#trajectories.append(conversations),
      samples === null ? null : this.#samples.append(samples),
    ])
    const whole = { ...event, trajectory_place, sample_place }
    await this.#journal.append(toJournalLine(whole)).durable
    const shared = this.#parts.share(whole)
    this.#events.set(itemKey(shared), shared)
    return shared
  }

  #fail(error: Error): void {
    this.#failure ??= error
    for (const writer of [this.#trajectories, this.#samples, this.#journal]) writer.refuse(error)
  }

  async #close(): Promise<void> {
    await Promise.allSettled(this.#commits)
    try {
      await Promise.all([this.#journal.close(), this.#trajectories.close(), this.#samples.close()])
    } finally {
      await this.lock.release()
    }
  }
}

/** When a segment has reached this size, a new one is started. Bytes. */
const segmentSize = 64 * 1024 * 1024

/** Appends lines to the segments of one kind. */
class SegmentWriter {
  readonly #location: string
  readonly #lock: FolderLock
  readonly #kind: SegmentKind
  readonly #onFailure: (error: Error) => void
  readonly #open = new Set<AppendFile>()
  readonly #closing: Promise<void>[] = []
  #segment: number
  #last: AppendFile | undefined

  /**
   * Truncates segments after the last line to which the journal refers: the rest was never acknowledged.
   *
   * @param ends - the end of that line, by segment
   */
  constructor(
    location: string,
    lock: FolderLock,
    kind: SegmentKind,
    ends: ReadonlyMap<number, number>,
    onFailure: (error: Error) => void,
  ) {
    this.#location = location
    this.#lock = lock
    this.#kind = kind
    this.#onFailure = onFailure
    this.#segment = cutSegments(location, kind, ends)
  }

  /** Resolves with the place of the line when it is on the disk. */
  async append(text: string): Promise<SegmentPlace> {
    const { offset, bytes, durable } = this.#current().append(text)
    const place: SegmentPlace = [this.#segment, offset, bytes.length, crc32(bytes)]
    await durable
    return place
  }

  refuse(error: Error): void {
    for (const file of this.#open) file.refuse(error)
  }

  async close(): Promise<void> {
    if (this.#last !== undefined) this.#closing.push(this.#closed(this.#last))
    this.#last = undefined
    await Promise.all(this.#closing)
  }

  /** Synchronous, so that two lines cannot disagree about which segment is the last. */
  #current(): AppendFile {
    if (this.#last !== undefined && this.#last.end >= segmentSize) {
      this.#closing.push(this.#closed(this.#last))
      this.#last = undefined
      this.#segment += 1
    }
    if (this.#last !== undefined) return this.#last
    const file = segmentFile(this.#location, this.#kind, this.#segment)
    this.#last = new AppendFile(file, this.#lock, this.#onFailure)
    this.#open.add(this.#last)
    return this.#last
  }

  async #closed(file: AppendFile): Promise<void> {
    try {
      await file.close()
    } catch (error) {
      this.#onFailure(error as Error)
    }
    this.#open.delete(file)
  }
}

/** Returns the number of the segment to continue with. */
function cutSegments(
  location: string,
  kind: SegmentKind,
  ends: ReadonlyMap<number, number>,
): number {
  const folder = path.join(location, kind)
  mkdirSync(folder, { recursive: true, mode: folderMode })
  const last = Math.max(-1, ...ends.keys())
  for (const name of readdirSync(folder)) {
    const segment = segmentOf(name)
    if (segment !== undefined && segment > last) rmSync(path.join(folder, name))
  }
  if (last === -1) return 0
  const end = ends.get(last) ?? 0
  const file = segmentFile(location, kind, last)
  const size = existsSync(file) ? statSync(file).size : 0
  if (size > end) truncateSync(file, end)
  // A segment that has lost its end is not continued: its lost places must not be assigned again.
  return size < end ? last + 1 : last
}
