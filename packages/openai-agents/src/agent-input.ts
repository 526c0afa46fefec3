import type { AgentInputItem, AssistantMessageItem, UserMessageItem } from '@openai/agents'
import { OsmosisError, type PromptMessage } from '@osmosis/core'
import { isJsonObject } from '@osmosis/core/http'
import type { ChatMessage, ChatToolCall, ChatContentPart } from '@osmosis/core/policy'

type Content = ChatMessage['content']
type UserPart = Exclude<UserMessageItem['content'], string>[number]
type AssistantPart = AssistantMessageItem['content'][number]

// Part types of user messages in chat completions, then those of the SDK.
const chatPartTypes = new Set(['text', 'image_url', 'input_audio', 'file'])
const sdkUserPartTypes = new Set(['input_text', 'input_image', 'input_file', 'audio'])
const sdkAssistantPartTypes = new Set(['output_text', 'refusal', 'audio', 'image'])

/** Nothing has checked the parts of a prompt: they may be null. */
type GivenPart = ChatContentPart | null

/** Whether the SDK does not know a content part. */
function isChatPart(part: GivenPart): boolean {
  const type = part?.type ?? ''
  return !sdkUserPartTypes.has(type) && !sdkAssistantPartTypes.has(type)
}

/** The text of a content that can be nothing but text in the SDK. */
function joinedText(role: string, content: Content): string {
  if (typeof content === 'string') return content
  return (content ?? [])
    .map((part: GivenPart) => {
      if (part?.type === 'text' || part?.type === 'input_text') return part.text ?? ''
      throw unsupported(role, part, 'text')
    })
    .join('')
}

/** The content of a user message in the SDK's form. */
function toUserParts(content: Content): string | UserPart[] {
  if (typeof content === 'string') return content
  return (content ?? []).map((part: GivenPart) =>
    sdkUserPartTypes.has(part?.type ?? '') ? (part as unknown as UserPart) : userPart(part),
  )
}

/**
 * The content of an assistant message in the SDK's form.
 *
 * @param alone - the message has no tool calls, so that it needs some content, be it empty
 */
function toAssistantParts({ content, refusal }: ChatMessage, alone: boolean): AssistantPart[] {
  const parts: AssistantPart[] = Array.isArray(content)
    ? content.map(assistantPart)
    : content
      ? [{ type: 'output_text', text: content }]
      : []
  if (refusal) parts.push({ type: 'refusal', refusal })
  return parts.length === 0 && alone ? [{ type: 'output_text', text: '' }] : parts
}

function userPart(part: GivenPart): UserPart {
  if (part === null) throw unsupported('user', part, [...chatPartTypes].join(', '))
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text ?? '' }
    case 'image_url': {
      const given = part['image_url']
      if (typeof given === 'string') return { type: 'input_image', image: given }
      const { url, ...settings } = fieldsOf(given)
      if (typeof url !== 'string') throw incomplete(part, 'url')
      // Versions of the SDK differ in how they take `detail`; all send what is here.
      return { type: 'input_image', image: url, providerData: { image_url: settings } }
    }
    case 'input_audio': {
      const { data, format } = fieldsOf(part['input_audio'])
      if (typeof data !== 'string' || typeof format !== 'string')
        throw incomplete(part, 'data and format')
      return { type: 'audio', audio: data, format, providerData: { input_audio: { format } } }
    }
    case 'file': {
      const { file_id: id, file_data, filename } = fieldsOf(part['file'])
      const data = typeof file_data === 'string' ? file_data : undefined
      const file = typeof id === 'string' ? { id } : data
      if (file === undefined) throw incomplete(part, 'file_id or file_data')
      return { type: 'input_file', file, ...(typeof filename === 'string' ? { filename } : {}) }
    }
    default:
      throw unsupported('user', part, [...chatPartTypes].join(', '))
  }
}

function assistantPart(part: GivenPart): AssistantPart {
  if (part?.type === 'text') return { type: 'output_text', text: part.text ?? '' }
  if (sdkAssistantPartTypes.has(part?.type ?? '')) return part as unknown as AssistantPart
  throw unsupported('assistant', part, 'text, refusal')
}

/** The fields of an object; none of any other value. Nothing has checked the parts of a prompt. */
function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return isJsonObject(value) ? value : {}
}

function incomplete({ type }: ChatContentPart, expected: string): OsmosisError {
  return new OsmosisError(
    'invalid_request',
    `A user message of the prompt has a part of type ${JSON.stringify(type)} whose ${type} has no ${expected}.`,
  )
}

function unsupported(role: string, part: GivenPart, supported: string): OsmosisError {
  return new OsmosisError(
    'invalid_request',
    `A ${role} message of the prompt has a part of type ${JSON.stringify(part?.type)}, for which the OpenAI Agents SDK has no form. Parts it takes there: ${supported}.`,
  )
}

/**
 * Messages in chat completions form as items of the SDK; items of the SDK stay as they are. Runs
 * inside a rollout do this with their input, so `run(agent, ctx.prompt, { session })` needs no
 * call of it. `developer` messages become `system` ones: the SDK has no such role.
 *
 * @throws OsmosisError with code `invalid_request` for what the SDK has no form for: other roles,
 * other parts, tool calls without an id
 */
export function toAgentInput(
  messages: readonly (PromptMessage | AgentInputItem)[],
): AgentInputItem[] {
  const toolNames = new Map<string, string>()
  return messages.flatMap((message) =>
    isChatMessage(message) ? convert(message, toolNames) : (message as AgentInputItem),
  )
}

/** Whether a list item is in a form that only chat completions has. */
export function isChatMessage(value: unknown): value is ChatMessage {
  if (typeof value !== 'object' || value === null) return false
  const { type, role, content, name, tool_calls } = value as ChatMessage
  if (typeof role !== 'string' || (type !== undefined && type !== 'message')) return false
  const textOnly = typeof content === 'string' && name === undefined
  if (role === 'system') return !textOnly
  if (role === 'user') return !textOnly && (!Array.isArray(content) || content.some(isChatPart))
  if (role !== 'assistant') return true
  return !Array.isArray(content) || content.some(isChatPart) || tool_calls !== undefined
}

function convert(message: ChatMessage, toolNames: Map<string, string>): AgentInputItem[] {
  const { role, content, name } = message
  const providerData = name === undefined ? {} : { providerData: { name } }
  switch (role) {
    case 'system':
    case 'developer':
      return [{ role: 'system', content: joinedText(role, content), ...providerData }]
    case 'user':
      return [{ role: 'user', content: toUserParts(content), ...providerData }]
    case 'assistant':
      return assistantItems(message, toolNames)
    case 'tool':
      return [toolResult(message, toolNames)]
    default:
      throw new OsmosisError(
        'invalid_request',
        `A prompt message has the role ${JSON.stringify(role)}; the roles of a prompt are system, developer, user, assistant and tool.`,
      )
  }
}

function assistantItems(message: ChatMessage, toolNames: Map<string, string>): AgentInputItem[] {
  const items: AgentInputItem[] = []
  const reasoning = message.reasoning_content ?? message.reasoning
  if (reasoning) {
    const rawContent = [{ type: 'reasoning_text' as const, text: reasoning }]
    items.push({ type: 'reasoning', content: [], rawContent })
  }
  const calls = message.tool_calls ?? []
  const content = toAssistantParts(message, calls.length === 0)
  if (content.length > 0) {
    items.push({ type: 'message', role: 'assistant', status: 'completed', content })
  }
  return [...items, ...calls.map((call) => functionCall(call, toolNames))]
}

function functionCall(call: ChatToolCall | null, toolNames: Map<string, string>): AgentInputItem {
  const { id: callId, function: called } = (call ?? {}) as Partial<ChatToolCall>
  if (typeof callId !== 'string' || callId === '' || !isJsonObject(called)) {
    throw new OsmosisError(
      'invalid_request',
      `A tool call of the prompt has no id or no function: ${JSON.stringify(call)}.`,
    )
  }
  toolNames.set(callId, called.name)
  // Data sets have arguments as objects, too; the SDK wants what a policy writes: text.
  const given: unknown = called.arguments
  const text = typeof given === 'string' ? given : JSON.stringify(given ?? {})
  return { type: 'function_call', callId, name: called.name, status: 'completed', arguments: text }
}

function toolResult(message: ChatMessage, toolNames: ReadonlyMap<string, string>): AgentInputItem {
  const { tool_call_id: callId, content, name } = message
  if (typeof callId !== 'string' || callId === '') {
    throw new OsmosisError(
      'invalid_request',
      `A tool message of the prompt has no tool_call_id: ${JSON.stringify(message)}.`,
    )
  }
  return {
    type: 'function_call_result',
    callId,
    name: name ?? toolNames.get(callId) ?? 'unknown',
    status: 'completed',
    output: { type: 'text', text: joinedText('tool', content) },
  }
}
