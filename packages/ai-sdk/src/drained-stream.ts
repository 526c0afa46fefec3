/** A stream that is read whether or not anybody reads it. */
export interface DrainedStream<T> {
  readonly stream: ReadableStream<T>
  /** Resolves, and never rejects, when the source has ended. */
  readonly drained: Promise<void>
}

/**
 * A stream of what `source` emits, as fast as that comes, whatever the consumer of the stream does:
 * the SDK stops reading when its own consumer leaves, and the policy would be cut off in the middle
 * of a turn that it has to be trained on as a whole. What is not read yet waits in the stream. An
 * error of `source` becomes one of the stream.
 */
export function drainedStream<T>(
  source: (emit: (part: T) => void) => Promise<void>,
): DrainedStream<T> {
  let consumer: ReadableStreamDefaultController<T> | undefined
  const stream = new ReadableStream<T>({
    start(controller) {
      consumer = controller
    },
    cancel() {
      consumer = undefined
    },
  })
  const drained = source((part) => consumer?.enqueue(part)).then(
    () => consumer?.close(),
    (error: unknown) => consumer?.error(error),
  )
  return { stream, drained }
}
