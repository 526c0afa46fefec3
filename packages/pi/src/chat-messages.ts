import {
  type AssistantMessage,
  getCurrentTools,
  getSystemMessageText,
  type ImageContent,
  type Message,
  renderSystemMessageUpdate,
  type TextContent,
} from '@earendil-works/pi-ai'
import type { ChatContentPart, ChatMessage } from '@osmosis/core/policy'

/** The tools of a conversation in chat completions form. */
export function chatTools(messages: readonly Message[]): object[] {
  return getCurrentTools(messages).map(({ name, description, parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  }))
}

/**
 * The messages of Pi in chat completions form. Turns that failed or were aborted are left out, as Pi's own clients do; images of tool
 * results follow their turn in a user message.
 */
export function chatMessages(messages: readonly Message[]): ChatMessage[] {
  const chat: ChatMessage[] = []
  let images: ImageContent[] = []
  const sendImages = (): void => {
    if (images.length > 0) chat.push({ role: 'user', content: images.map(chatPart) })
    images = []
  }
  for (const [index, message] of messages.entries()) {
    if (message.role !== 'toolResult') sendImages()
    switch (message.role) {
      case 'system': {
        const text =
          index === 0 ? getSystemMessageText(message) : renderSystemMessageUpdate(message)
        if (text !== '') chat.push({ role: 'system', content: text })
        break
      }
      case 'user':
        chat.push({ role: 'user', content: userContent(message.content) })
        break
      case 'assistant':
        if (message.stopReason !== 'error' && message.stopReason !== 'aborted') {
          chat.push(assistantMessage(message))
        }
        break
      case 'toolResult': {
        const texts = message.content.flatMap((part) => (part.type === 'text' ? [part.text] : []))
        images.push(...message.content.filter((part) => part.type === 'image'))
        chat.push({ role: 'tool', tool_call_id: message.toolCallId, content: texts.join('\n') })
      }
    }
  }
  sendImages()
  return chat
}

function userContent(content: string | (TextContent | ImageContent)[]): string | ChatContentPart[] {
  if (typeof content === 'string') return content
  const [only, ...others] = content
  return only?.type === 'text' && others.length === 0 ? only.text : content.map(chatPart)
}

function chatPart(part: TextContent | ImageContent): ChatContentPart {
  if (part.type === 'text') return { type: 'text', text: part.text }
  return { type: 'image_url', image_url: { url: `data:${part.mimeType};base64,${part.data}` } }
}

function assistantMessage({ content }: AssistantMessage): ChatMessage {
  let text = ''
  let thinking = ''
  const calls: NonNullable<ChatMessage['tool_calls']> = []
  for (const part of content) {
    if (part.type === 'text') text += part.text
    else if (part.type === 'thinking') thinking += part.thinking
    else {
      const called = { name: part.name, arguments: JSON.stringify(part.arguments) }
      calls.push({ id: part.id, type: 'function', function: called })
    }
  }
  return {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    ...(thinking === '' ? {} : { reasoning_content: thinking }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
}
