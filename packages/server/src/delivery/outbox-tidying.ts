import type { Segment } from './outbox-segment.ts'

/** Segments may have this much that is out of date, and as much as is not. Bytes. */
const slackBytes = 4 * 1024 * 1024
/** How soon all goes when no record is left. Milliseconds. */
const quietMs = 1000
/** How long a line may stay that is out of date, while records are kept. Milliseconds. */
const stalenessMs = 60_000
/** Copying what is not out of date takes no more than this of the disk. Bytes per millisecond. */
const copiedPerMs = 1024

/** What {@link JournalTidying} works on. */
export interface TidiedJournal {
  /** The oldest first. */
  segments(): readonly Segment[]
  /** Of all lines of records that are not over. */
  liveBytes(): number
  /** Has what is written from now on go to a new segment. */
  seal(): Promise<void>
  /** Removes the oldest segment, with its live lines copied to the current one. */
  retire(oldest: Segment): Promise<void>
}

/**
 * Keeps the folder small, and lines no longer than they are needed: they hold bearer keys. Segments go in
 * the order in which they were written. What says that a record is over comes behind its other lines, and
 * so is there for as long as they are.
 */
export class JournalTidying {
  readonly #journal: TidiedJournal
  readonly #onTrouble: (error: unknown) => void
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #sweptAt = performance.now()
  #isClosed = false
  /** Something failed: it is tried again in a while. */
  #isHeldUp = false
  #count = 0

  constructor(journal: TidiedJournal, onTrouble: (error: unknown) => void) {
    this.#journal = journal
    this.#onTrouble = onTrouble
  }

  /**
   * To be called when something was written.
   *
   * @param count - how many records are kept
   */
  consider(count: number): void {
    this.#count = count
    if (this.#isClosed || this.#running !== undefined) return
    if (!this.#isHeldUp && this.#isDue()) this.#run(async () => this.#retireWhileDue())
    else if (this.#timer === undefined && this.#journal.segments().some(({ isStale }) => isStale)) {
      this.#arm()
    }
  }

  /** Resolves when nothing continues. What is out of date goes, unless that takes long. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#running
    if (this.#count > 0 && this.#journal.liveBytes() > slackBytes) return
    await this.#sweep().catch(this.#onTrouble)
  }

  #arm(): void {
    const delayMs = this.#isHeldUp ? stalenessMs : quietMs
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#isHeldUp = false
      const ms = Math.max(stalenessMs, this.#journal.liveBytes() / copiedPerMs)
      const isTime = this.#count === 0 || performance.now() >= this.#sweptAt + ms
      if (isTime && this.#running === undefined) this.#run(async () => this.#sweep())
      else this.consider(this.#count)
    }, delayMs).unref()
  }

  #run(task: () => Promise<void>): void {
    this.#running = task()
      .catch((error: unknown) => {
        this.#isHeldUp = true
        this.#onTrouble(error)
      })
      .finally(() => {
        this.#running = undefined
        this.consider(this.#count)
      })
  }

  #isDue(): boolean {
    const segments = this.#journal.segments()
    const [oldest, next] = segments
    if (oldest === undefined || next === undefined) return false
    if (oldest.live === 0) return true
    const size = segments.reduce((bytes, segment) => bytes + segment.size, 0)
    if (size <= 2 * this.#journal.liveBytes() + slackBytes) return false
    return segments.some(({ isStale }) => isStale)
  }

  async #retireWhileDue(): Promise<void> {
    while (this.#isDue()) await this.#retireOldest()
  }

  /** Has everything go that is out of date. */
  async #sweep(): Promise<void> {
    this.#sweptAt = performance.now()
    await this.#journal.seal()
    const segments = [...this.#journal.segments()]
    const stale = segments.findLastIndex(({ isStale }) => isStale)
    for (let swept = 0; swept <= stale; swept += 1) await this.#retireOldest()
  }

  async #retireOldest(): Promise<void> {
    const [oldest] = this.#journal.segments()
    if (oldest !== undefined) await this.#journal.retire(oldest)
  }
}
