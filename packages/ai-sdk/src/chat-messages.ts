import { OsmosisError, type PromptMessage } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import type { ModelMessage, SystemModelMessage, ToolModelMessage } from 'ai'

import { onTheWire, textOf, toUserParts } from './chat-parts.ts'

type AssistantParts = Exclude<Extract<ModelMessage, { role: 'assistant' }>['content'], string>

/** A prompt as `generateText` and `streamText` take it. */
export interface ModelPrompt {
  /** The system messages at the start; the text alone when there is only one. */
  instructions?: string | SystemModelMessage[]
  messages: ModelMessage[]
  /** There are system messages further down. */
  allowSystemInMessages?: true
}

/**
 * A prompt in chat completions form as arguments of `generateText` and `streamText`, which take
 * system messages at the start as instructions only: `generateText({ model,
 * ...fromChatMessages(ctx.prompt) })`. An `OsmosisToolLoopAgent` takes {@link toModelMessages}.
 *
 * @throws OsmosisError with code `invalid_request` for what the SDK has no form for
 */
export function fromChatMessages(prompt: readonly PromptMessage[]): ModelPrompt {
  const all = toModelMessages(prompt)
  const first = all.findIndex(({ role }) => role !== 'system')
  const system = all.slice(0, first === -1 ? all.length : first) as SystemModelMessage[]
  const messages = all.slice(system.length)
  return {
    ...(system.length > 0 ? { instructions: alone(system) } : {}),
    messages,
    ...(messages.some(({ role }) => role === 'system') ? { allowSystemInMessages: true } : {}),
  }
}

/**
 * Messages in chat completions form as messages of the SDK, one for each, system messages in their
 * places. They reach the policy as they were: what the SDK has no field for (the role `developer`,
 * `name`, `detail` of an image, the spaces in tool arguments) is carried in `providerOptions`. Only
 * a content of nothing but text parts becomes one string.
 *
 * @throws OsmosisError with code `invalid_request` for roles and parts the SDK has no form for
 */
export function toModelMessages(messages: readonly PromptMessage[]): ModelMessage[] {
  const toolNames = new Map<string, string>()
  return (messages as readonly ChatMessage[]).map((message): ModelMessage => {
    for (const call of message.tool_calls ?? []) toolNames.set(call.id, call.function.name)
    switch (message.role) {
      case 'system':
      case 'developer':
        return systemMessage(message)
      case 'user':
        return userMessage(message)
      case 'assistant':
        return assistantMessage(message)
      case 'tool':
        return toolMessage(message, toolNames)
      default:
        throw new OsmosisError(
          'invalid_request',
          `The AI SDK has no messages with the role ${JSON.stringify(message.role)}. Its roles are system, developer, user, assistant and tool.`,
        )
    }
  })
}

function alone(messages: SystemModelMessage[]): string | SystemModelMessage[] {
  const [only, ...others] = messages
  return only && others.length === 0 && !only.providerOptions ? only.content : messages
}

function systemMessage({ content, ...fields }: ChatMessage): SystemModelMessage {
  return { role: 'system', content: textOf(content), ...onTheWire(fields, { role: 'system' }) }
}

function userMessage({ content, ...fields }: ChatMessage): ModelMessage {
  const more = onTheWire(fields, { role: 'user' })
  const parts = Array.isArray(content) ? toUserParts(content) : undefined
  const [part, ...others] = parts ?? [{ type: 'text' as const, text: textOf(content) }]
  // Of a single text the SDK reads the options of the part, of anything else those of the message.
  if (part?.type !== 'text' || others.length > 0)
    return { role: 'user', content: parts ?? [], ...more }
  return { role: 'user', content: more.providerOptions ? [{ ...part, ...more }] : part.text }
}

function assistantMessage({ content, tool_calls, ...fields }: ChatMessage): ModelMessage {
  const { reasoning_content, reasoning, ...others } = fields
  const thinking = reasoning_content ?? reasoning
  const parts: AssistantParts = []
  if (thinking) parts.push({ type: 'reasoning', text: thinking })
  if (textOf(content) !== '') parts.push({ type: 'text', text: textOf(content) })
  for (const call of tool_calls ?? []) {
    const input = parsed(call.function.arguments)
    const sent = {
      id: call.id,
      type: 'function',
      function: { name: call.function.name, arguments: JSON.stringify(input) },
    }
    parts.push({
      type: 'tool-call',
      toolCallId: call.id,
      toolName: call.function.name,
      input,
      ...onTheWire(call, sent),
    })
  }
  const [only, ...more] = parts
  return {
    role: 'assistant',
    content: only?.type === 'text' && more.length === 0 ? only.text : parts,
    ...onTheWire(others, { role: 'assistant' }),
  }
}

function toolMessage(
  { content, tool_call_id: toolCallId = '', ...fields }: ChatMessage,
  names: ReadonlyMap<string, string>,
): ToolModelMessage {
  return {
    role: 'tool',
    content: [
      {
        type: 'tool-result',
        toolCallId,
        toolName: names.get(toolCallId) ?? fields.name ?? 'unknown',
        output: { type: 'text', value: textOf(content) },
        ...onTheWire(fields, { role: 'tool' }),
      },
    ],
  }
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return {}
  }
}
