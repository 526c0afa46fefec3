/**
 * The body of an answer for a `Response`. Unlike that of `Readable.toWeb` it may be cancelled at any
 * moment: there a piece that is already on its way throws where nobody can catch it.
 */
export function webBody(
  body: AsyncIterable<Uint8Array> & { destroy(): unknown },
): ReadableStream<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]()
  let over = false
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next = await pieces.next()
        if (over) return
        if (next.done === true) controller.close()
        else controller.enqueue(next.value)
      } catch (error) {
        if (!over) throw error
      }
    },
    cancel() {
      over = true
      body.destroy()
    },
  })
}
