import { isFinal, type DeliveryOutcome, type SamplesById } from '@osmosis/protocol'
import {
  conversationJson,
  type BodyParts,
  type Callback,
  type CallbackInParts,
  type CallbackRecord,
} from '@osmosis/server/protocols'

import type { DeliveryKind } from '../records/rollout-record.ts'
import type { RolloutRecords } from '../records/rollout-records.ts'

/** Options of {@link QueuedCallbacks}. */
export interface QueuedCallbacksOptions {
  readonly rolloutId: string
  readonly records: RolloutRecords
  /** The connection to Redis when the outcome was read, see `Replication`. */
  readonly since: number
  /** The graded samples of the record. */
  readonly samples: SamplesById
  /** The callback whose outcome the caller records, together with its next step. */
  readonly last: DeliveryKind
  /** Whether a callback that is given up now is not tried again. */
  readonly isLastTry: () => Promise<boolean>
}

/**
 * The callbacks of one rollout, stored in the queue: all servers send the body that was built first until
 * it is acknowledged.
 */
export class QueuedCallbacks implements CallbackRecord {
  /** What this server gives up is sent by the next server that takes the job. */
  readonly isShared = true
  readonly #options: QueuedCallbacksOptions
  #lastOutcome: DeliveryOutcome | undefined
  #gaveUp = false
  #failure: Error | undefined

  constructor(options: QueuedCallbacksOptions) {
    this.#options = options
  }

  /** The outcome of the last callback, if it was delivered here and is not recorded yet. */
  get lastOutcome(): DeliveryOutcome | undefined {
    return this.#lastOutcome
  }

  /** Whether a callback must be tried again later. */
  get gaveUp(): boolean {
    return this.#gaveUp
  }

  async store(callback: Callback): Promise<Callback | undefined> {
    const { kind, body } = callback
    const { rolloutId, records, since } = this.#options
    return this.#try(async () => {
      // Conversations are already in the record, and are not stored again with each body.
      const { parts: own = [body] } = callback as Partial<CallbackInParts>
      const first = await records.storeCallback(rolloutId, kind as DeliveryKind, own)
      await records.replication.confirm(since)
      if (first === undefined || first === own) return first && callback
      return { ...callback, body: this.#whole(first) }
    })
  }

  async settle({ kind }: Callback, outcome: DeliveryOutcome): Promise<void> {
    const { last, isLastTry } = this.#options
    const isFinished = isFinal(outcome) || (await this.#try(isLastTry))
    if (isFinished !== true) this.#gaveUp = true
    else if (kind === last) this.#lastOutcome = outcome
    else await this.#note(kind as DeliveryKind, outcome)
  }

  /**
   * Records the outcome of the last callback when something failed, because the caller's next step does not
   * follow then.
   *
   * @throws the error of the queue that prevented a callback from being sent or recorded
   */
  async assertKept(): Promise<void> {
    if (this.#failure === undefined && !this.#gaveUp) return
    if (this.#lastOutcome !== undefined) await this.#note(this.#options.last, this.#lastOutcome)
    if (this.#failure !== undefined) throw this.#failure
  }

  #whole(parts: BodyParts): string {
    const { samples } = this.#options
    const text = (sample: string): string => conversationJson(samples.get(sample)?.messages)
    return parts.map((part) => (typeof part === 'string' ? part : text(part.sample))).join('')
  }

  async #note(kind: DeliveryKind, outcome: DeliveryOutcome): Promise<void> {
    const { rolloutId, records } = this.#options
    await this.#try(async () => records.noteDelivered(rolloutId, kind, outcome))
  }

  async #try<T>(act: () => Promise<T>): Promise<T | undefined> {
    try {
      return await act()
    } catch (error) {
      this.#failure ??= error instanceof Error ? error : new Error(String(error))
      return undefined
    }
  }
}
