import { OsmosisError } from '../errors.ts'
import type { ChatCompletion, ChatCompletionChunk } from './chat-completion.ts'

/** Options of one model call. */
export interface PolicyCallOptions {
  /** Ends the call; the rollout's own signal ends it as well. */
  signal?: AbortSignal | undefined
  /** Tries after a first one that failed before its answer began; default 2. */
  retries?: number | undefined
  /** More request headers. They cannot replace the ids and the bearer of the rollout. */
  headers?: Readonly<Record<string, string>> | undefined
}

/**
 * The answer to one model call: its chunks as they come, to be read once, and the whole of it. The
 * request is sent when the first chunk is asked for.
 */
export type PolicyStream = AsyncIterable<ChatCompletionChunk> & {
  /**
   * The whole answer, known as soon as the chunks have been read. It rejects with what reading them
   * throws, and with code `policy_stream_error` when their reader stopped before the end; nobody
   * has to look at it. Reading is up to the caller: it stays open while nobody does.
   */
  readonly completion: Promise<ChatCompletion>
}

/** What the whole answer settles. */
export interface Answered {
  readonly promise: Promise<ChatCompletion>
  readonly resolve: (completion: ChatCompletion) => void
  readonly reject: (reason: unknown) => void
}

/** A stream over the chunks of `run`, which settles the promise that it is given. */
export function policyStream(
  run: (answered: Answered) => AsyncGenerator<ChatCompletionChunk, unknown>,
): PolicyStream {
  const answered = Promise.withResolvers<ChatCompletion>()
  answered.promise.catch(ignore)
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

/** What became of an answer that nobody read to its end. */
export function stoppedReading(): OsmosisError {
  return new OsmosisError('policy_stream_error', 'The caller stopped reading.')
}

function ignore(): void {}
