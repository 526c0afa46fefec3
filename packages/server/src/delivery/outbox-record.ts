import { errorMessage } from '@osmosis/core'
import { isFinal, type DeliveryOutcome } from '@osmosis/protocol'

import type { OutboxJournal } from '../journal/journal.ts'
import {
  type Callback,
  fromEntry,
  readFirstLine,
  readLine,
  toEntry,
  toLine,
  type OutboxAcceptance,
  type Note,
  type Step,
} from '../journal/outbox-lines.ts'
import type { Logger } from '../logging/logger.ts'
import type { CallbackRecord } from './callback-delivery.ts'

/** The end of a leased rollout. */
export interface StoredOutcome {
  readonly status: 'success' | 'failure' | 'cancelled'
  readonly reward: number | null
  readonly errorMessage: string | null
  /** The result: JSON. */
  readonly json: string
  /** Milliseconds since 1970. */
  readonly at: number
}

/** What stores a record. */
export interface RecordStorage {
  /** Identifies its lines. */
  readonly id: string
  readonly journal: OutboxJournal
  readonly logger: Logger
}

/**
 * The steps of one rollout on disk, from its acceptance on. Each is written before it is visible. Nothing
 * here rejects: a failed write is logged, and the rollout then does not survive a restart. When another process
 * has taken over the folder, it delivers the rollout, and no further step may become visible here.
 */
export class OutboxRecord implements CallbackRecord {
  readonly acceptance: OutboxAcceptance
  readonly #storage: RecordStorage
  /** Callbacks that were built and are not delivered, in their order. */
  readonly #waiting = new Map<string, Callback>()
  #ifInterrupted: readonly Callback[]
  #latest: Callback | undefined
  #refused: readonly Callback[] = []
  /** Number of steps with a line. */
  #steps = 0
  #isRemoved = false
  #grading = false
  #end: StoredOutcome | undefined
  #fetched = false

  constructor(acceptance: OutboxAcceptance, storage: RecordStorage) {
    this.acceptance = acceptance
    this.#ifInterrupted = acceptance.ifInterrupted
    this.#storage = storage
  }

  /** Identifies its lines. */
  get id(): string {
    return this.#storage.id
  }

  /** Pending callbacks if no further step happens. */
  get undelivered(): Callback[] {
    return [...this.#waiting.values(), ...this.#ifInterrupted]
  }

  /** The last of all callbacks if no further step happens. */
  get last(): Callback | undefined {
    return this.#ifInterrupted.at(-1) ?? this.#latest
  }

  /** Whether the rollout would end differently if the process restarted now. */
  get undecided(): boolean {
    return this.#ifInterrupted.length > 0
  }

  /** Callbacks that the receiver refused permanently. */
  get refused(): readonly Callback[] {
    return this.#refused
  }

  /** Whether the grading of a leased rollout had started when an earlier process ended. */
  get grading(): boolean {
    return this.#grading
  }

  /** How a leased rollout ended in an earlier process. Undefined for one that ended in this process, which keeps its result elsewhere. */
  get end(): StoredOutcome | undefined {
    return this.#end
  }

  get fetched(): boolean {
    return this.#fetched
  }

  async store(
    callback: Callback,
    ifInterrupted?: readonly Callback[],
  ): Promise<Callback | undefined> {
    const { idempotencyKey } = callback
    const waiting = this.#waiting.get(idempotencyKey)
    if (waiting !== undefined) return waiting
    const next =
      ifInterrupted ??
      this.#ifInterrupted.filter((planned) => planned.idempotencyKey !== idempotencyKey)
    const if_interrupted = next.map(toEntry)
    const step = { line: 'callback', callback: toEntry(callback), if_interrupted } as const
    if (!(await this.#writeStep(step))) return undefined
    this.#waiting.set(idempotencyKey, callback)
    this.#latest = callback
    this.#ifInterrupted = next
    return callback
  }

  /** Not synced: sending a callback again does no harm. */
  async settle(callback: Callback, outcome: DeliveryOutcome): Promise<void> {
    if (!isFinal(outcome)) return
    const note = { line: 'settled', idempotency_key: callback.idempotencyKey, outcome } as const
    await this.#writeNote(note)
    this.#apply(note)
  }

  /** Not synced: it only affects the message of an interrupted rollout. */
  async recordGrading(): Promise<boolean> {
    return this.#writeNote({ line: 'grading' })
  }

  /** Stores a result before it can be fetched; false when it must not become visible. */
  async storeEnd(end: Omit<StoredOutcome, 'at'>): Promise<boolean> {
    const { status, reward, errorMessage: error_message, json } = end
    return this.#writeStep({ line: 'end', at: Date.now(), status, reward, error_message, json })
  }

  /** Stores that the result was fetched. */
  async recordFetched(): Promise<void> {
    if (this.#fetched) return
    this.#fetched = true
    await this.#writeNote({ line: 'fetched' })
  }

  /** Removes a rollout that was delivered completely, or never accepted. */
  async remove(): Promise<void> {
    this.#isRemoved = true
    await this.#try(async ({ journal, id }) => journal.end(id))
  }

  /** Applies a line of an earlier process. */
  read(text: string): void {
    const line = readLine(text)
    if (line.line === 'callback' || line.line === 'end') this.#steps += 1
    this.#apply(line)
  }

  #apply(line: Step | Note): void {
    if (line.line === 'callback') {
      const { rolloutId } = this.acceptance
      const callback = fromEntry(line.callback, rolloutId)
      this.#waiting.set(callback.idempotencyKey, callback)
      this.#latest = callback
      this.#ifInterrupted = line.if_interrupted.map((entry) => fromEntry(entry, rolloutId))
    } else if (line.line === 'settled') this.#applyOutcome(line.idempotency_key, line.outcome)
    else if (line.line === 'end') {
      const { error_message, ...end } = line
      this.#end = { ...end, errorMessage: error_message }
    } else if (line.line === 'grading') this.#grading = true
    else this.#fetched = true
  }

  #applyOutcome(idempotencyKey: string, outcome: 'acknowledged' | 'refused'): void {
    const callback = this.#waiting.get(idempotencyKey)
    if (callback === undefined) return
    this.#waiting.delete(idempotencyKey)
    if (outcome === 'refused') this.#refused = [...this.#refused, callback]
  }

  /** Writes a step, and resolves with whether it may become visible. */
  async #writeStep(step: Step): Promise<boolean> {
    if (this.#isRemoved) return true
    this.#steps += 1
    const number = this.#steps
    const isWritten = await this.#try(async ({ journal, id }) =>
      journal.step(id, toLine(id, number, step)),
    )
    if (isWritten) return true
    if (this.#storage.journal.isLost) return false
    // Without this step, the next process could deliver something that contradicts this one.
    await this.remove()
    return true
  }

  /** Writes a note, and resolves with whether it may become visible: not when another process owns the outbox. */
  async #writeNote(note: Note): Promise<boolean> {
    if (this.#isRemoved) return true
    const number = this.#steps
    await this.#try(async ({ journal, id }) => journal.note(id, toLine(id, number, note)))
    return !this.#storage.journal.isLost
  }

  async #try(act: (storage: RecordStorage) => Promise<void>): Promise<boolean> {
    try {
      await act(this.#storage)
      return true
    } catch (error) {
      // The loss was logged once, for all rollouts.
      if (this.#storage.journal.isLost) return false
      const line = { rollout_id: this.acceptance.rolloutId, error }
      this.#storage.logger.error(line, `outbox is out of date: ${errorMessage(error)}`)
      return false
    }
  }
}

/**
 * Reads a record of an earlier process.
 *
 * @param lines - of a record, at least one
 * @returns the record, and when its rollout was accepted: milliseconds since 1970
 * @throws the error of the parser, whose text may quote keys
 */
export function readRecord(
  [first = '', ...rest]: readonly string[],
  storage: RecordStorage,
): { record: OutboxRecord; at: number } {
  const { acceptance, at } = readFirstLine(first)
  const record = new OutboxRecord(acceptance, storage)
  for (const line of rest) record.read(line)
  return { record, at }
}
