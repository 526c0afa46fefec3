import type { Callback, CallbackRecord, DeliveryOutcome } from '@osmosis/server/internal'

import type { ToldKind } from '../records/rollout-record.ts'
import type { RolloutRecords } from '../records/rollout-records.ts'

/**
 * The callbacks of one rollout, kept in the queue: whichever front builds one first, that one is sent
 * by all of them until somebody has acknowledged it.
 */
export class KeptCallbacks implements CallbackRecord {
  /** What this front gives up, the next one that has the job sends. */
  readonly passesOn = true
  readonly #rolloutId: string
  readonly #records: RolloutRecords
  /** Whether one that is given up is not tried again. */
  readonly #isLastTry: boolean
  #gaveUp = false
  #failure: Error | undefined

  constructor(rolloutId: string, records: RolloutRecords, isLastTry: boolean) {
    this.#rolloutId = rolloutId
    this.#records = records
    this.#isLastTry = isLastTry
  }

  /** Whether one of them is to be tried again later. */
  get gaveUp(): boolean {
    return this.#gaveUp
  }

  /** @throws the error of the queue that kept one from being sent or noted */
  assertKept(): void {
    if (this.#failure !== undefined) throw this.#failure
  }

  async keep(callback: Callback): Promise<Callback | undefined> {
    const { kind, body } = callback
    return this.#try(async () => {
      const first = await this.#records.keepCallback(this.#rolloutId, kind as ToldKind, body)
      return first === undefined ? undefined : { ...callback, body: first }
    })
  }

  async told({ kind }: Callback, outcome: DeliveryOutcome): Promise<void> {
    if (outcome === 'gave_up' && !this.#isLastTry) this.#gaveUp = true
    else {
      await this.#try(async () => this.#records.told(this.#rolloutId, kind as ToldKind, outcome))
    }
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
