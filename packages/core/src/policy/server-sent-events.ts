import { createParser, type EventSourceMessage } from 'eventsource-parser'

/**
 * The events of a `text/event-stream` body, however its bytes were split: those that became
 * complete with the same piece come together.
 */
export async function* serverSentEvents(
  body: AsyncIterable<Uint8Array>,
): AsyncGenerator<readonly EventSourceMessage[]> {
  let pending: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (event) => pending.push(event) })
  const decoder = new TextDecoder()

  for await (const bytes of body) {
    parser.feed(decoder.decode(bytes, { stream: true }))
    if (pending.length === 0) continue
    const events = pending
    pending = []
    yield events
  }

  // Some servers close right behind the last line, without the empty line that ends an event.
  parser.feed(`${decoder.decode()}\n\n`)
  yield pending
}
