import type { BeginningModelCall } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'

import { receiveError, type SentError } from '../protocol/sent-error.ts'
import type { ParentChannel } from './front-channel.ts'

/** Announces the model calls of a run to the front, and has them wait for its answers. */
export class CallAnnouncements {
  readonly #run: number
  readonly #channel: ParentChannel
  readonly #unanswered = new Map<number, PromiseWithResolvers<void>>()
  #calls = 0

  constructor(run: number, channel: ParentChannel) {
    this.#run = run
    this.#channel = channel
  }

  /** As an observer does it. */
  async begin({ endpoint, signal }: BeginningModelCall): Promise<() => void> {
    const identity = { run: this.#run, call: (this.#calls += 1) }
    const answered = Promise.withResolvers<void>()
    this.#unanswered.set(identity.call, answered)
    this.#channel.post({ type: 'call', ...identity, endpoint })
    const end = (): void => this.#channel.post({ type: 'call-ended', ...identity })
    try {
      await untilAborted(signal, () => answered.promise)
      return end
    } catch (error) {
      end()
      throw error
    } finally {
      this.#unanswered.delete(identity.call)
    }
  }

  answered(call: number, error: SentError | null): void {
    const unanswered = this.#unanswered.get(call)
    if (error === null) unanswered?.resolve()
    else unanswered?.reject(receiveError(error))
  }
}
