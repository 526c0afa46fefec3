import { readdir, rm } from 'node:fs/promises'
import path from 'node:path'

import type { Trajectory } from '@osmosis/runtime/trajectory'

import type { ItemEvent } from '../analysis/item-event.ts'
import type { RunManifest } from '../analysis/run-manifest.ts'
import { AppendFile, truncate } from './append-file.ts'
import { toJournalLine } from './journal-line.ts'
import { readJournal } from './journal.ts'
import { grown, type RunGrowth, writeManifest } from './manifest-file.ts'
import { itemKey, runFiles, type SegmentKind } from './run-files.ts'
import type { RunLock } from './run-lock.ts'
import { SegmentWriter } from './segment-writer.ts'
import { SnapshotFiles, type RunSnapshots } from './snapshot-files.ts'

/** More different parts than this are no longer looked for among one another. */
const mostParts = 10_000

/**
 * Lets events share what they have alike, such as `{ stop: 1 }`: a run holds all of its events, and by
 * far most of the objects in them are of a few kinds.
 */
class SharedParts {
  readonly #parts = new Map<string, unknown>()

  /** The same event, with parts that other events have as well. */
  share(event: ItemEvent): ItemEvent {
    return {
      ...event,
      samples: this.#shared(event.samples),
      finish: this.#shared(event.finish),
      tools: this.#shared(event.tools),
      metrics: this.#shared(event.metrics),
    }
  }

  #shared<T extends object>(part: T): T {
    const text = JSON.stringify(part)
    const known = this.#parts.get(text)
    if (known !== undefined) return known as T
    if (this.#parts.size < mostParts) this.#parts.set(text, part)
    return part
  }
}

/** What a grader saw of a sample. */
export interface GradedSample {
  /** As the agent framework keeps them. */
  readonly messages: readonly unknown[]
  /** A label of the sample's own. */
  readonly label: string | null
  readonly metrics: Readonly<Record<string, unknown>>
  readonly extra_fields: Readonly<Record<string, unknown>>
  /** It was taken out of training, by the workflow or the grader. Default: false. */
  readonly removed?: true
}

/** A conversation in chat completions form, as it was sent to the policy and answered. */
export interface WireConversation {
  /** Left out where they are those of the sample. */
  readonly messages?: readonly unknown[]
  /** Of the latest request that had any. */
  readonly tools?: readonly unknown[]
}

/** What a grader saw of a rollout: enough to grade it again. */
export interface GradedRollout {
  readonly label: string | null
  readonly metadata: Readonly<Record<string, unknown>> | null
  /** Columns of the row besides, which eval functions see. Default: none. */
  readonly other_columns?: Readonly<Record<string, unknown>>
  /** The folder of its artifacts, relative to the run's; null without one. */
  readonly artifacts: string | null
  /** By sample id. */
  readonly samples: Readonly<Record<string, GradedSample>>
  /** By sample id, for those that were heard at the policy. Default: none. */
  readonly wire?: Readonly<Record<string, WireConversation>>
}

/** An item that has ended. */
export interface EndedItem {
  /** Where the rest of it lies is added when it is written. */
  readonly event: Omit<ItemEvent, 'at' | 'sat'>
  /** What was said, by sample id; null when nothing was. */
  readonly trajectories: Readonly<Record<string, Trajectory>> | null
  /** Null when the rollout gave nothing to grade. */
  readonly graded: GradedRollout | null
}

/** Writes the folder of a run. There is one at a time, see `createRun` and `resumeRun`. */
export interface RunStore {
  /** The folder; absolute. */
  readonly location: string
  readonly manifest: RunManifest
  /** The last event of each item that has ended, by `itemKey`. */
  readonly events: ReadonlyMap<string, ItemEvent>
  /**
   * Resolves with the whole event when the item survives a crash of the process and of the machine.
   * Items that are committed concurrently share their writes.
   *
   * @throws OsmosisError with code `storage_error` when it cannot be written: it names the file and
   * the room that is left, nothing of the item is kept, and every further commit is refused with it
   * @throws TypeError when the store is closed, or the item has no JSON form
   */
  commit(item: EndedItem): Promise<ItemEvent>
  /**
   * Replaces what the journal says of an item that has ended; its transcripts stay where they are.
   * Resolves, and throws, as `commit` does.
   */
  amend(event: ItemEvent): Promise<ItemEvent>
  /**
   * Lets the run have more rows or attempts, or another threshold. Rows keep their places; new ones
   * come behind.
   *
   * @throws OsmosisError with code `storage_error`
   */
  grow(growth: RunGrowth): Promise<RunManifest>
  /**
   * Writes `index.jsonl`, `metrics.json` and `progress.json` now and then: `texts` is called when it
   * is time to, which takes a twentieth of the time at most.
   *
   * @throws OsmosisError with code `storage_error`
   */
  refreshSnapshots(texts: () => RunSnapshots): Promise<void>
  /** Writes them now. Throws what `refreshSnapshots` throws. */
  writeSnapshots(texts: () => RunSnapshots): Promise<void>
  /** Waits for what was committed, and lets other processes have the run. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

export interface OpenStoreOptions {
  readonly location: string
  readonly manifest: RunManifest
  readonly lock: RunLock
  readonly snapshotIntervalMs: number
}

/** Reads what the run has, cuts what was never acknowledged, and continues behind it. */
export async function openStore(options: OpenStoreOptions): Promise<RunStore> {
  const { location } = options
  const { journal } = runFiles(location)
  const events = new Map<string, ItemEvent>()
  const parts = new SharedParts()
  const ends = { trajectories: new Map<number, number>(), samples: new Map<number, number>() }
  let end = 0
  for await (const [event, after] of readJournal(journal)) {
    events.set(itemKey(event), parts.share(event))
    noteEnd(ends.trajectories, event.at)
    noteEnd(ends.samples, event.sat)
    end = after.offset
  }
  truncate(journal, end)
  await removeUnfinished(location)
  return new FolderStore(options, events, ends)
}

/** What `writeFileAtomically` was writing when the process was killed. */
async function removeUnfinished(location: string): Promise<void> {
  for (const name of await readdir(location)) {
    if (/\.[0-9a-f-]{36}\.tmp$/.test(name)) await rm(path.join(location, name), { force: true })
  }
}

function noteEnd(ends: Map<number, number>, place: ItemEvent['at']): void {
  if (place === null) return
  const [segment, offset, length] = place
  ends.set(segment, Math.max(ends.get(segment) ?? 0, offset + length))
}

class FolderStore implements RunStore {
  readonly location: string
  readonly events: ReadonlyMap<string, ItemEvent>
  readonly #events: Map<string, ItemEvent>
  readonly #parts = new SharedParts()
  readonly #journal: AppendFile
  readonly #trajectories: SegmentWriter
  readonly #samples: SegmentWriter
  readonly #snapshots: SnapshotFiles
  readonly #lock: RunLock
  readonly #commits = new Set<Promise<unknown>>()
  #manifest: RunManifest
  #failure: Error | undefined
  #closed: Promise<void> | undefined

  constructor(
    { location, manifest, lock, snapshotIntervalMs }: OpenStoreOptions,
    events: Map<string, ItemEvent>,
    ends: Readonly<Record<SegmentKind, ReadonlyMap<number, number>>>,
  ) {
    this.location = location
    this.#manifest = manifest
    this.events = this.#events = events
    this.#lock = lock
    this.#snapshots = new SnapshotFiles(location, snapshotIntervalMs)
    const fail = (error: Error): void => this.#fail(error)
    this.#trajectories = new SegmentWriter(location, 'trajectories', ends.trajectories, fail)
    this.#samples = new SegmentWriter(location, 'samples', ends.samples, fail)
    this.#journal = new AppendFile(runFiles(location).journal, fail)
  }

  get manifest(): RunManifest {
    return this.#manifest
  }

  async commit(item: EndedItem): Promise<ItemEvent> {
    return this.#track(() => this.#write(item))
  }

  async amend(event: ItemEvent): Promise<ItemEvent> {
    return this.#track(() => this.#enter(event))
  }

  async #track(write: () => Promise<ItemEvent>): Promise<ItemEvent> {
    if (this.#closed !== undefined) throw new TypeError(`The run ${this.location} is closed.`)
    const committed = write()
    this.#commits.add(committed)
    try {
      return await committed
    } finally {
      this.#commits.delete(committed)
    }
  }

  async grow(growth: RunGrowth): Promise<RunManifest> {
    const manifest = grown(this.#manifest, growth)
    if (manifest !== this.#manifest) await writeManifest(this.location, manifest)
    this.#manifest = manifest
    return manifest
  }

  refreshSnapshots(texts: () => RunSnapshots): Promise<void> {
    return this.#snapshots.refresh(texts)
  }

  writeSnapshots(texts: () => RunSnapshots): Promise<void> {
    return this.#snapshots.write(texts)
  }

  close(): Promise<void> {
    return (this.#closed ??= this.#close())
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #write({ event, trajectories, graded }: EndedItem): Promise<ItemEvent> {
    const { rollout_id } = event
    // Both before either is written: what has no JSON form must not leave the other half behind.
    const said = trajectories && JSON.stringify({ rollout_id, samples: trajectories })
    const saw = graded && JSON.stringify({ rollout_id, ...graded })
    if (this.#failure !== undefined) throw this.#failure
    const [at, sat] = await Promise.all([
      said === null ? null : this.#trajectories.append(said),
      saw === null ? null : this.#samples.append(saw),
    ])
    return this.#enter({ ...event, at, sat })
  }

  async #enter(event: ItemEvent): Promise<ItemEvent> {
    await this.#journal.append(toJournalLine(event)).durable
    const kept = this.#parts.share(event)
    this.#events.set(itemKey(event), kept)
    return kept
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
      this.#lock.release()
    }
  }
}
