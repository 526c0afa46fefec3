import { errorMessage } from '@osmosis/core'
import { isFinal, type DeliveryOutcome } from '@osmosis/runtime'

import type { Logger } from '../logging/logger.ts'
import type { Callback, CallbackRecord } from './callback-delivery.ts'
import type { OutboxJournal } from './outbox-journal.ts'
import {
  fromEntry,
  readFirstLine,
  readLine,
  toEntry,
  toLine,
  type OutboxAcceptance,
  type Note,
  type Step,
} from './outbox-lines.ts'

/** The end of a rollout whose result is fetched. */
export interface KeptEnd {
  readonly status: 'success' | 'failure' | 'cancelled'
  readonly reward: number | null
  readonly errorMessage: string | null
  /** The result as it is answered: JSON. */
  readonly json: string
  /** Milliseconds since 1970. */
  readonly at: number
}

/** What a record is kept with. */
export interface RecordPlace {
  /** Under which its lines are found. */
  readonly id: string
  readonly journal: OutboxJournal
  readonly logger: Logger
}

/**
 * What is known on disk of one rollout from its acceptance on, a line for each step, each written
 * before the world can see the step. Nothing here rejects: what cannot be written is logged, and
 * costs the safety of a restart. When another process has taken the folder over, that one tells of the
 * rollout, and no further step may be seen.
 */
export class OutboxRecord implements CallbackRecord {
  readonly acceptance: OutboxAcceptance
  readonly #place: RecordPlace
  /** Callbacks that were built and have not arrived, in their order. */
  readonly #waiting = new Map<string, Callback>()
  #ifInterrupted: readonly Callback[]
  #latest: Callback | undefined
  #refused: readonly Callback[] = []
  /** How many steps have lines. */
  #steps = 0
  #gone = false
  #grading = false
  #end: KeptEnd | undefined
  #fetched = false

  constructor(acceptance: OutboxAcceptance, place: RecordPlace) {
    this.acceptance = acceptance
    this.#ifInterrupted = acceptance.ifInterrupted
    this.#place = place
  }

  /** Under which its lines are found. */
  get id(): string {
    return this.#place.id
  }

  /** Callbacks that are still to arrive, when nothing else is found out about the rollout. */
  get undelivered(): Callback[] {
    return [...this.#waiting.values(), ...this.#ifInterrupted]
  }

  /** The last callback of all, when nothing else is found out about the rollout. */
  get last(): Callback | undefined {
    return this.#ifInterrupted.at(-1) ?? this.#latest
  }

  /** Whether a restart would end the rollout otherwise than it has ended, or will. */
  get undecided(): boolean {
    return this.#ifInterrupted.length > 0
  }

  /** Callbacks that the receiver refused for good. */
  get refused(): readonly Callback[] {
    return this.#refused
  }

  /** Whether a rollout whose result is fetched has got as far as its grading. */
  get grading(): boolean {
    return this.#grading
  }

  get end(): KeptEnd | undefined {
    return this.#end
  }

  get fetched(): boolean {
    return this.#fetched
  }

  async keep(
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
    if (!(await this.#mayBeSeen(step))) return undefined
    this.#waiting.set(idempotencyKey, callback)
    this.#latest = callback
    this.#ifInterrupted = next
    return callback
  }

  /** Notes what became of a callback. Not synced: to send it once more does no harm. */
  async told(callback: Callback, outcome: DeliveryOutcome): Promise<void> {
    if (!isFinal(outcome)) return
    const note = { line: 'told', idempotency_key: callback.idempotencyKey, outcome } as const
    await this.#note(note)
    this.#apply(note)
  }

  /** Notes how far it has got. Not synced: it only says what the failure of an interrupted one is. */
  async noteGrading(): Promise<void> {
    await this.#note({ line: 'grading' })
  }

  /** Keeps a result before it can be fetched; false when it must not be. */
  async keepEnd(end: Omit<KeptEnd, 'at'>): Promise<boolean> {
    const { status, reward, errorMessage: error_message, json } = end
    return this.#mayBeSeen({ line: 'end', at: Date.now(), status, reward, error_message, json })
  }

  /** Notes that the result was handed out. */
  async noteFetched(): Promise<void> {
    if (this.#fetched) return
    this.#fetched = true
    await this.#note({ line: 'fetched' })
  }

  /** It has been told in full, or was never accepted: nothing is left to keep. */
  async remove(): Promise<void> {
    this.#gone = true
    await this.#try(async ({ journal, id }) => journal.end(id))
  }

  /** Takes up a line that an earlier process wrote. */
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
    } else if (line.line === 'told') this.#applyTold(line.idempotency_key, line.outcome)
    else if (line.line === 'end') {
      const { error_message, ...end } = line
      this.#end = { ...end, errorMessage: error_message }
    } else if (line.line === 'grading') this.#grading = true
    else this.#fetched = true
  }

  #applyTold(idempotencyKey: string, outcome: 'acknowledged' | 'refused'): void {
    const callback = this.#waiting.get(idempotencyKey)
    if (callback === undefined) return
    this.#waiting.delete(idempotencyKey)
    if (outcome === 'refused') this.#refused = [...this.#refused, callback]
  }

  /** Writes a step, and resolves with whether the world may see it. */
  async #mayBeSeen(step: Step): Promise<boolean> {
    if (this.#gone) return true
    this.#steps += 1
    const number = this.#steps
    const isWritten = await this.#try(async ({ journal, id }) =>
      journal.step(id, toLine({ id, number }, step)),
    )
    if (isWritten) return true
    if (this.#place.journal.isLost) return false
    // Without this step, what the next process would tell could contradict what is told now.
    await this.remove()
    return true
  }

  async #note(note: Note): Promise<void> {
    if (this.#gone) return
    const number = this.#steps
    await this.#try(async ({ journal, id }) => journal.note(id, toLine({ id, number }, note)))
  }

  async #try(act: (place: RecordPlace) => Promise<void>): Promise<boolean> {
    try {
      await act(this.#place)
      return true
    } catch (error) {
      // It was said once, for all rollouts.
      if (this.#place.journal.isLost) return false
      const line = { rollout_id: this.acceptance.rolloutId, error }
      this.#place.logger.error(line, `outbox is out of date: ${errorMessage(error)}`)
      return false
    }
  }
}

/**
 * Reads what an earlier process wrote.
 *
 * @param lines - of a record, at least one
 * @returns the record, and when it was accepted: milliseconds since 1970
 * @throws the error of the parser, whose text may quote keys
 */
export function readRecord(
  [first = '', ...rest]: readonly string[],
  place: RecordPlace,
): { record: OutboxRecord; at: number } {
  const { acceptance, at } = readFirstLine(first)
  const record = new OutboxRecord(acceptance, place)
  for (const line of rest) record.read(line)
  return { record, at }
}
