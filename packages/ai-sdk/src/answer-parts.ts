import type { FinishPart, StreamPart, StreamResult } from './language-model-types.ts'
import { answerError } from './policy-errors.ts'
import { providerName } from './policy-endpoint-model.ts'

/**
 * The parts of an answer, which is either complete or ends in a thrown error. As a part among the
 * others an error would be half an answer to some consumers, and to the SDK's `streamRetries` a
 * reason to sample the policy once more.
 *
 * @param turnId - goes into the metadata of the last part
 */
export async function* answerParts(
  stream: StreamResult['stream'],
  turnId: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<StreamPart> {
  try {
    for await (const part of stream) {
      if (part.type === 'error') throw part.error
      yield part.type === 'finish' ? withTurnId(part, turnId) : part
    }
  } catch (error) {
    throw signal?.aborted ? error : answerError(error)
  }
}

function withTurnId(part: FinishPart, turnId: string): FinishPart {
  const { providerMetadata } = part
  const ours = { ...providerMetadata?.[providerName], turnId }
  return { ...part, providerMetadata: { ...providerMetadata, [providerName]: ours } }
}
