import { OsmosisError } from '../errors.ts'
import type { ChatCompletion, ChatCompletionChunk } from './chat-completion.ts'

/** Options of one model call. */
export interface PolicyCallOptions {
  /**
   * What the call is for: `agent` (default), `title`, `summary`, `judge`, or another word. At most 64 letters,
   * digits, `.`, `_` and `-`.
   */
  purpose?: string | undefined
  /**
   * Whether the answer is training data. Default: true. A call that is not is recorded beside the conversations
   * of its sample, and a sample without any other call does not exist.
   */
  trainable?: boolean | undefined
  /** Name of the agent that makes the call, for transcripts. At most 200 characters of it are kept. */
  agent?: string | undefined
  /** Ends the call; the rollout's own signal ends it as well. */
  signal?: AbortSignal | undefined
  /** Retries of a call that failed before its answer started; default 2. */
  retries?: number | undefined
  /**
   * Additional request headers. They cannot override the ids and the bearer of the rollout. `x-osmosis-purpose`,
   * `x-osmosis-trainable` and `x-osmosis-agent` (percent-encoded) are the options of these names.
   */
  headers?: Readonly<Record<string, string>> | undefined
}

/**
 * The answer to one model call: its chunks as they arrive, to be read once, and the whole answer. The request
 * is sent when the first chunk is read.
 */
export type PolicyStream = AsyncIterable<ChatCompletionChunk> & {
  /**
   * The whole answer, once the chunks have been read. Rejects with the error of reading them, or with code
   * `policy_stream_error` when the reader stopped before the end; that rejection need not be handled. Stays
   * pending while the chunks are not read.
   */
  readonly completion: Promise<ChatCompletion>
}

/** The promise of a whole answer. */
export type Answered = PromiseWithResolvers<ChatCompletion>

/** A stream over the chunks of `run`, which has to settle the promise. */
export function policyStream(
  run: (answered: Answered) => AsyncGenerator<ChatCompletionChunk, unknown>,
): PolicyStream {
  const answered = Promise.withResolvers<ChatCompletion>()
  answered.promise.catch(() => {})
  const chunks = run(answered)
  const iterator: AsyncIterator<ChatCompletionChunk> = {
    next: () => chunks.next(),
    return: () => {
      // A generator that was not started ends without running.
      const ended = chunks.return(undefined)
      return ended.finally(() => answered.reject(stoppedReading()))
    },
  }
  return { completion: answered.promise, [Symbol.asyncIterator]: () => iterator }
}

/** The error of an answer that was not read to its end. */
export function stoppedReading(): OsmosisError {
  return new OsmosisError('policy_stream_error', 'The caller stopped reading.')
}
