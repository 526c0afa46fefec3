import { answerReader } from '../policy/answer/answer-reader.ts'
import { AnswerSegments } from './answer-segments.ts'
import type { DialectAnswer, DialectEvent } from './dialect.ts'

/**
 * The events of an answer, as the chunks of the policy arrive.
 *
 * @throws OsmosisError with code `policy_stream_error` when the answer breaks off
 */
export async function* answerEvents(
  answered: Response,
  answer: DialectAnswer,
): AsyncGenerator<readonly DialectEvent[]> {
  const parts = new AnswerSegments()
  // The policy client has checked the limits.
  const reader = answerReader('text/event-stream', Infinity)
  yield answer.begin()
  for await (const bytes of answered.body as AsyncIterable<Uint8Array>) {
    reader.add([bytes])
    const pieces = reader.take().flatMap((chunk) => parts.add(chunk))
    if (pieces.length > 0) yield pieces.flatMap((piece) => answer.piece(piece))
  }
  reader.end()
  yield parts.rest().flatMap((piece) => answer.piece(piece))
  yield answer.end(parts.end)
}
