import { OsmosisError, type PromptMessage } from '@osmosis/core'
import type { ChatContentPart, ChatMessage } from '@osmosis/core/policy'

import { type AdkContent, type AdkPart, roleKey } from './adk-types.ts'

/**
 * The prompt of a row as the `newMessage` of a runner. The ADK has one message here, so its parts say which of them
 * are system messages; an {@link OsmosisLlm} sends these as such.
 *
 * @throws OsmosisError with code `invalid_request` for messages of an assistant or a tool, for parts that are neither
 * text nor images, and for images outside of user messages
 */
export function toNewMessage(prompt: readonly PromptMessage[]): AdkContent {
  const parts = (prompt as readonly ChatMessage[]).flatMap(({ role, content }) => {
    if (role === 'assistant' || role === 'tool') {
      throw new OsmosisError(
        'invalid_request',
        `A prompt with a message of the role ${JSON.stringify(role)} cannot be a new message of the ADK. Append it to the session as an event.`,
      )
    }
    const own = Array.isArray(content)
      ? content.map((part) => toPart(part, role))
      : [{ text: content ?? '' }]
    return role === 'user'
      ? own
      : own.map((part) => ({ ...part, partMetadata: { [roleKey]: role } }))
  })
  return { role: 'user', parts }
}

function toPart(part: ChatContentPart | null, role: string): AdkPart {
  if (part?.type === 'text') return { text: part.text ?? '' }
  const link = part?.['image_url'] as string | { url: string } | undefined
  const url = typeof link === 'string' ? link : link?.url
  if (role !== 'user' || part?.type !== 'image_url' || url === undefined) {
    throw new OsmosisError(
      'invalid_request',
      `A prompt with a part of the type ${JSON.stringify(part?.type)} in a message of the role ${JSON.stringify(role)} cannot be a new message of the ADK. Use text, and image_url in user messages.`,
    )
  }
  const [, mimeType, data] = /^data:([^;,]+);base64,([^]*)$/.exec(url) ?? []
  if (mimeType === undefined || data === undefined)
    return { fileData: { fileUri: url, mimeType: 'image/*' } }
  return { inlineData: { mimeType, data } }
}
