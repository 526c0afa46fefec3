import type { AssistantMessageItem, UserMessageItem } from '@openai/agents'
import { OsmosisError } from '@osmosis/core'
import type { ChatContentPart, ChatMessage } from '@osmosis/core/policy'

type Content = ChatMessage['content']
type UserPart = Exclude<UserMessageItem['content'], string>[number]
type AssistantPart = AssistantMessageItem['content'][number]

// Part types of user messages in chat completions, then those of the SDK.
const chatPartTypes = new Set(['text', 'image_url', 'input_audio', 'file'])
const sdkUserPartTypes = new Set(['input_text', 'input_image', 'input_file', 'audio'])
const sdkAssistantPartTypes = new Set(['output_text', 'refusal', 'audio', 'image'])

/** Whether the SDK does not know a content part. */
export function isChatPart({ type }: ChatContentPart): boolean {
  return !sdkUserPartTypes.has(type) && !sdkAssistantPartTypes.has(type)
}

/** The text of a content that can be nothing but text in the SDK. */
export function joinedText(role: string, content: Content): string {
  if (typeof content === 'string') return content
  const parts = content ?? []
  const other = parts.find(({ type }) => type !== 'text' && type !== 'input_text')
  if (other) throw unsupported(role, other, 'text')
  return parts.map(({ text }) => text ?? '').join('')
}

/** The content of a user message in the SDK's form. */
export function toUserParts(content: Content): string | UserPart[] {
  if (typeof content === 'string') return content
  return (content ?? []).map((part) =>
    sdkUserPartTypes.has(part.type) ? (part as unknown as UserPart) : userPart(part),
  )
}

/**
 * The content of an assistant message in the SDK's form.
 *
 * @param alone - the message has no tool calls, so that it needs some content, be it empty
 */
export function toAssistantParts(
  { content, refusal }: ChatMessage,
  alone: boolean,
): AssistantPart[] {
  const parts: AssistantPart[] = Array.isArray(content)
    ? content.map(assistantPart)
    : content
      ? [{ type: 'output_text', text: content }]
      : []
  if (refusal) parts.push({ type: 'refusal', refusal })
  return parts.length === 0 && alone ? [{ type: 'output_text', text: '' }] : parts
}

function userPart(part: ChatContentPart): UserPart {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text ?? '' }
    case 'image_url': {
      const given = part['image_url'] as string | { url: string; [key: string]: unknown }
      if (typeof given === 'string') return { type: 'input_image', image: given }
      const { url, ...settings } = given
      // Versions of the SDK differ in how they take `detail`; all send what is here.
      return { type: 'input_image', image: url, providerData: { image_url: settings } }
    }
    case 'input_audio': {
      const { data, format } = part['input_audio'] as { data: string; format: string }
      return { type: 'audio', audio: data, format, providerData: { input_audio: { format } } }
    }
    case 'file': {
      const {
        file_id: id,
        file_data,
        filename,
      } = part['file'] as Record<string, string | undefined>
      return {
        type: 'input_file',
        file: id === undefined ? (file_data ?? '') : { id },
        ...(filename === undefined ? {} : { filename }),
      }
    }
    default:
      throw unsupported('user', part, [...chatPartTypes].join(', '))
  }
}

function assistantPart(part: ChatContentPart): AssistantPart {
  if (part.type === 'text') return { type: 'output_text', text: part.text ?? '' }
  if (sdkAssistantPartTypes.has(part.type)) return part as unknown as AssistantPart
  throw unsupported('assistant', part, 'text, refusal')
}

function unsupported(role: string, part: ChatContentPart, supported: string): OsmosisError {
  return new OsmosisError(
    'invalid_request',
    `A ${role} message of the prompt has a part of type ${JSON.stringify(part.type)}, for which the OpenAI Agents SDK has no form. Parts it takes there: ${supported}.`,
  )
}
