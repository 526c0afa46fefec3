/** A stream that is read whether or not anybody reads it. */
export interface DrainedStream<T> {
  readonly stream: ReadableStream<T>
  /** Resolves, and never rejects, when `parts` has ended, with its error if it had one. */
  readonly drained: Promise<{ error: unknown } | undefined>
}

/**
 * Reads `parts` to their end as fast as they come, whatever the consumer of the stream does: the
 * SDK stops reading when its own consumer leaves, and the policy would be cut off in the middle of
 * a turn that it has to be trained on as a whole. What is not read yet waits in the stream.
 */
export function drainedStream<T>(parts: AsyncIterable<T>): DrainedStream<T> {
  let consumer: ReadableStreamDefaultController<T> | undefined
  const stream = new ReadableStream<T>({
    start(controller) {
      consumer = controller
    },
    cancel() {
      consumer = undefined
    },
  })

  async function drain(): Promise<{ error: unknown } | undefined> {
    try {
      for await (const part of parts) consumer?.enqueue(part)
      consumer?.close()
      return undefined
    } catch (error) {
      consumer?.error(error)
      return { error }
    }
  }
  return { stream, drained: drain() }
}
