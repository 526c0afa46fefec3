import { finished, type Readable } from 'node:stream'

/**
 * The body of an answer for a `Response`. Unlike that of `Readable.toWeb` it may be cancelled at any
 * moment: there a piece that is already on its way throws where nobody can catch it.
 */
export function webBody(body: Readable): ReadableStream<Uint8Array> {
  let over = false
  return new ReadableStream<Uint8Array>({
    start(controller) {
      body.pause()
      body.on('data', (piece: Uint8Array) => {
        if (over) return
        controller.enqueue(piece)
        if ((controller.desiredSize ?? 0) <= 0) body.pause()
      })
      finished(body, { writable: false }, (error) => {
        if (over) return
        over = true
        if (error) controller.error(error)
        else controller.close()
      })
    },
    pull() {
      body.resume()
    },
    cancel() {
      over = true
      body.destroy()
    },
  })
}
