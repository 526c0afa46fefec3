import type { AssistantMessage, Message } from '@earendil-works/pi-ai'
import {
  type RolloutContext,
  type RolloutSample,
  sharedSampleSource,
  type SampleSource,
  toRolloutSample,
} from '@osmosis/core'

const kind = Symbol.for('osmosis.pi')

/** Receives the answer to a call. */
interface RecordedPiCall {
  succeed(message: AssistantMessage): void
}

/** The latest conversation of a sample in Pi's own messages. */
export class PiSample implements SampleSource {
  readonly requiresModelCall = true
  readonly #open = new Set<Promise<void>>()
  #messages: readonly Message[] = []
  #latest = 0
  #count = 0

  begin(prompt: readonly Message[]): RecordedPiCall {
    const number = (this.#count += 1)
    // The agent appends to its list while the call is in progress.
    const before = [...prompt]
    this.#note(number, before)
    return { succeed: (message) => this.#note(number, [...before, message]) }
  }

  /** The sample is not complete before the call has ended. */
  waitFor(call: Promise<void>): void {
    const ended = call.finally(() => this.#open.delete(ended))
    this.#open.add(ended)
  }

  async getSample(id: string): Promise<RolloutSample> {
    await Promise.all(this.#open)
    return toRolloutSample({ id, messages: this.#messages })
  }

  #note(number: number, messages: readonly Message[]): void {
    if (number < this.#latest) return
    this.#latest = number
    this.#messages = messages
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
