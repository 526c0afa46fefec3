import { isFinal, type DeliveryOutcome, type SamplesById } from '@osmosis/runtime'
import {
  conversationJson,
  type BodyParts,
  type Callback,
  type CallbackInParts,
  type CallbackRecord,
} from '@osmosis/server/protocols'

import type { DeliveryKind } from '../records/rollout-record.ts'
import type { RolloutRecords } from '../records/rollout-records.ts'

/** What the callbacks of one rollout are stored with. */
export interface QueuedCallbacksOptions {
  readonly rolloutId: string
  readonly records: RolloutRecords
  /** Those of the grading, as the record has them. */
  readonly samples: SamplesById
  /** The outcome of this one is noted by the caller, together with the next step. */
  readonly last: DeliveryKind
  /** Whether one that is given up is not tried again. */
  readonly isLastTry: boolean
}

/**
 * The callbacks of one rollout, stored in the queue: the one that a server builds first is sent
 * by all of them until somebody has acknowledged it.
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

  /** The outcome of the last one, if it was delivered here and is not noted yet. */
  get lastOutcome(): DeliveryOutcome | undefined {
    return this.#lastOutcome
  }

  /** Whether one of them is to be tried again later. */
  get gaveUp(): boolean {
    return this.#gaveUp
  }

  async store(callback: Callback): Promise<Callback | undefined> {
    const { kind, body } = callback
    const { rolloutId, records } = this.#options
    return this.#try(async () => {
      // Conversations are in the record once, and are not stored again with each body that repeats them.
      const { parts: own = [body] } = callback as Partial<CallbackInParts>
      const first = await records.keepCallback(rolloutId, kind as DeliveryKind, own)
      if (first === undefined || first === own) return first && callback
      return { ...callback, body: this.#whole(first) }
    })
  }

  async settle({ kind }: Callback, outcome: DeliveryOutcome): Promise<void> {
    const { last, isLastTry } = this.#options
    if (!isFinal(outcome) && !isLastTry) this.#gaveUp = true
    else if (kind === last) this.#lastOutcome = outcome
    else await this.#note(kind as DeliveryKind, outcome)
  }

  /**
   * Notes what became of the last one when it is not all: nothing follows that would note it.
   *
   * @throws the error of the queue that kept one from being sent or noted
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
