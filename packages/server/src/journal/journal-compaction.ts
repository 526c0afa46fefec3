import type { Segment } from './journal-segment.ts'

/** Segments may contain this much stale data, and as much again as there is live data. Bytes. */
const slackBytes = 4 * 1024 * 1024
/** How soon all segments are removed when no record is left. Milliseconds. */
const quietMs = 1000
/** How long stale lines may remain while there are live records. Milliseconds. */
const stalenessMs = 60_000
/** Limit of the disk use for copying live lines. Bytes per millisecond. */
const copiedPerMs = 1024

/** What {@link JournalCompaction} works on. */
export interface CompactedJournal {
  /** The oldest first. */
  segments(): readonly Segment[]
  /** Bytes of all lines of live records. */
  liveBytes(): number
  /** Makes later writes go to a new segment. */
  seal(): Promise<void>
  /** Removes the oldest segment, and copies its live lines to the current one. */
  remove(oldest: Segment): Promise<void>
}

/**
 * Keeps the folder small, and removes lines soon after they are stale, because they contain bearer keys.
 * Segments are removed in the order of their writing. The end of a record follows its other lines, so it
 * exists for as long as they do.
 */
export class JournalCompaction {
  readonly #journal: CompactedJournal
  readonly #onError: (error: unknown) => void
  #timer: NodeJS.Timeout | undefined
  #running: Promise<void> | undefined
  #sweptAt = performance.now()
  #isClosed = false
  /** After a failure it waits before it retries. */
  #hasFailed = false
  #count = 0

  constructor(journal: CompactedJournal, onError: (error: unknown) => void) {
    this.#journal = journal
    this.#onError = onError
  }

  /**
   * Starts or schedules a compaction if there is need; call it after each write.
   *
   * @param count - number of live records
   */
  schedule(count: number): void {
    this.#count = count
    if (this.#isClosed || this.#running !== undefined) return
    if (!this.#hasFailed && this.#isDue()) this.#run(async () => this.#removeWhileDue())
    else if (this.#timer === undefined && this.#journal.segments().some(({ isStale }) => isStale)) {
      this.#arm()
    }
  }

  /** Waits for a running compaction, then removes stale lines unless that takes long. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#running
    if (this.#count > 0 && this.#journal.liveBytes() > slackBytes) return
    await this.#sweep().catch(this.#onError)
  }

  #arm(): void {
    const delayMs = this.#hasFailed ? stalenessMs : quietMs
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#hasFailed = false
      const ms = Math.max(stalenessMs, this.#journal.liveBytes() / copiedPerMs)
      const isTime = this.#count === 0 || performance.now() >= this.#sweptAt + ms
      if (isTime && this.#running === undefined) this.#run(async () => this.#sweep())
      else this.schedule(this.#count)
    }, delayMs).unref()
  }

  #run(task: () => Promise<void>): void {
    this.#running = task()
      .catch((error: unknown) => {
        this.#hasFailed = true
        this.#onError(error)
      })
      .finally(() => {
        this.#running = undefined
        this.schedule(this.#count)
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

  async #removeWhileDue(): Promise<void> {
    while (this.#isDue()) await this.#removeOldest()
  }

  /** Removes all stale lines. */
  async #sweep(): Promise<void> {
    this.#sweptAt = performance.now()
    await this.#journal.seal()
    const segments = [...this.#journal.segments()]
    const stale = segments.findLastIndex(({ isStale }) => isStale)
    for (let swept = 0; swept <= stale; swept += 1) await this.#removeOldest()
  }

  async #removeOldest(): Promise<void> {
    const [oldest] = this.#journal.segments()
    if (oldest !== undefined) await this.#journal.remove(oldest)
  }
}
