import type { AgentInputItem } from '@openai/agents'
import { OsmosisError, type PromptMessage } from '@osmosis/core'
import type { ChatMessage, ChatToolCall } from '@osmosis/core/policy'

import { isChatPart, joinedText, toAssistantParts, toUserParts } from './message-parts.ts'

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

function functionCall(call: ChatToolCall, toolNames: Map<string, string>): AgentInputItem {
  const { id: callId, function: called } = call
  if (typeof callId !== 'string' || callId === '' || called === undefined) {
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
