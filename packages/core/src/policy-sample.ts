import { OsmosisError } from './errors.ts'
import type { CallLog } from './policy/call-log.ts'
import type { PolicyClient } from './policy/policy-client.ts'
import { createPolicyFetch } from './policy/policy-fetch.ts'
import type { PolicyStream } from './policy/policy-stream.ts'
import { wireTranscript } from './policy/transcript.ts'
import { toRolloutSample, type RolloutSample } from './rollout-sample.ts'
import type { SampleSource } from './sample-registry.ts'

/** A sample whose messages are what goes over the wire, for frameworks without an adapter. */
export class PolicySample implements SampleSource {
  readonly requiresModelCall = true
  /** The way to the policy, for the framework. */
  readonly policy: PolicyClient
  readonly #log: CallLog
  /** The signals of the calls that have not ended. */
  readonly #open = new Set<AbortSignal | undefined>()
  /** `seenUpTo`: how many calls had begun by then. */
  #failed: { error: Error; seenUpTo: number } | undefined
  #begun = 0

  constructor(policy: PolicyClient, log: CallLog) {
    this.#log = log
    const stream: PolicyClient['stream'] = (request, options) =>
      this.#watched(policy.stream(request, options), options?.signal)
    this.policy = { ...policy, fetch: createPolicyFetch({ stream }) }
  }

  getSample(id: string): RolloutSample {
    return toRolloutSample({ id, messages: wireTranscript(this.#log)?.messages ?? [] })
  }

  /**
   * Frameworks make a text of an error that happens in a tool, and an empty answer of one that happens in a
   * stream; and nobody has to read a stream.
   */
  unnoticedError(): Error | undefined {
    if (this.#failed) return this.#failed.error
    if ([...this.#open].every((signal) => signal?.aborted)) return undefined
    return new OsmosisError(
      'rollout_ended',
      'The workflow returned while the policy was answering: read streams to their end, and await everything the workflow starts.',
    )
  }

  #watched(answer: PolicyStream, signal: AbortSignal | undefined): PolicyStream {
    const number = (this.#begun += 1)
    const chunks = answer[Symbol.asyncIterator]()
    this.#open.add(signal)
    const iterator: ReturnType<PolicyStream[typeof Symbol.asyncIterator]> = {
      next: async () => {
        try {
          const result = await chunks.next()
          if (result.done) this.#open.delete(signal)
          // A call that began before another failed is no recovery from that failure.
          if (result.done && number > (this.#failed?.seenUpTo ?? 0)) this.#failed = undefined
          return result
        } catch (error) {
          this.#open.delete(signal)
          if (!signal?.aborted && error instanceof Error) {
            this.#failed = { error, seenUpTo: this.#begun }
          }
          throw error
        }
      },
      return: async () => {
        this.#open.delete(signal)
        return (await chunks.return?.()) ?? { done: true, value: undefined }
      },
    }
    return { completion: answer.completion, [Symbol.asyncIterator]: () => iterator }
  }
}
