import { finished, type Readable } from 'node:stream'

/** A reader that is this far behind holds the sender up. Bytes. */
const mostHeld = 1024 * 1024

/**
 * The bytes of an answer, in the pieces that had come each time the reader asked. They are taken
 * out of the stream at once: what it holds is lost when the connection breaks, and the last words
 * before that often say why. The stream is left open.
 *
 * @throws what the stream fails with, behind everything that had come
 */
export async function* bodyPieces(body: Readable): AsyncGenerator<readonly Uint8Array[]> {
  let pieces: Uint8Array[] = []
  let held = 0
  let end: { readonly error: Error | null | undefined } | undefined
  let more = Promise.withResolvers<void>()
  const onData = (piece: Uint8Array): void => {
    pieces.push(piece)
    held += piece.length
    if (held > mostHeld) body.pause()
    more.resolve()
  }
  const forget = finished(body, { writable: false }, (error) => {
    end = { error }
    more.resolve()
  })
  body.on('data', onData)
  try {
    while (true) {
      await more.promise
      more = Promise.withResolvers()
      if (pieces.length > 0) {
        const taken = pieces
        pieces = []
        held = 0
        if (end) more.resolve()
        else if (body.isPaused()) body.resume()
        yield taken
      } else if (end) {
        if (end.error) throw end.error
        return
      }
    }
  } finally {
    forget()
    body.off('data', onData)
  }
}
