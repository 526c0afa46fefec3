import { isDeepStrictEqual } from 'node:util'

import type { Message } from '@earendil-works/pi-ai'
import {
  type NativeCall,
  NativeSample,
  type RolloutContext,
  type RolloutSample,
  sharedSampleSource,
  type SampleSource,
} from '@osmosis/core'

const kind = Symbol.for('osmosis.pi')

/** The conversation of a sample in Pi's own messages. */
export class PiSample implements SampleSource {
  readonly requiresModelCall = true
  readonly #open = new Set<Promise<void>>()
  readonly #conversation = new NativeSample<Message>({
    isSame: isDeepStrictEqual,
    toStored: (message) => message,
  })

  begin(prompt: readonly Message[]): NativeCall<Message> {
    // The agent appends to its list while the call is in progress.
    return this.#conversation.begin([...prompt])
  }

  succeed(call: NativeCall<Message>, answer: Message): void {
    this.#conversation.succeed(call, answer)
  }

  /** The sample is not complete before the call has ended. */
  waitFor(call: Promise<void>): void {
    const ended = call.finally(() => this.#open.delete(ended))
    this.#open.add(ended)
  }

  async getSample(id: string): Promise<RolloutSample> {
    await Promise.all(this.#open)
    return this.#conversation.getSample(id)
  }
}

/**
 * The sample of this name, registered with the rollout when it is new.
 *
 * @throws OsmosisError with code `duplicate_sample` when something else has the name, or `invalid_id`
 */
export function sampleOf(rollout: RolloutContext, name: string): PiSample {
  return sharedSampleSource(rollout, name, { kind, create: () => new PiSample() })
}
