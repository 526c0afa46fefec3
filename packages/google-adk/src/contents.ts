import { OsmosisError } from '@osmosis/core'
import type { ChatContentPart, ChatMessage, ChatToolCall } from '@osmosis/core/policy'

import { type AdkConfig, type AdkContent, type AdkPart, roleKey } from './adk-types.ts'

/**
 * Contents of Gemini in chat completions form, system instruction included.
 *
 * @throws OsmosisError with code `invalid_request` for parts that have no such form
 */
export function toChatMessages(
  contents: readonly AdkContent[],
  instruction: AdkConfig['systemInstruction'],
): ChatMessage[] {
  const calls = new CallIds()
  const system = instructionText(instruction)
  return [
    ...(system === '' ? [] : [{ role: 'system', content: system }]),
    ...contents.flatMap((content) =>
      content.role === 'model' ? [assistantMessage(content, calls)] : userMessages(content, calls),
    ),
  ]
}

/** Ids of tool calls: a conversation from elsewhere may have none. */
class CallIds {
  /** Calls without a result, by name. */
  readonly #open = new Map<string, string[]>()
  #count = 0

  ofCall(id: string | undefined, name: string): string {
    const known = id || `call_${(this.#count += 1)}`
    this.#open.set(name, [...(this.#open.get(name) ?? []), known])
    return known
  }

  ofResponse(id: string | undefined, name: string): string {
    const open = this.#open.get(name) ?? []
    const known = id || (open[0] ?? '')
    this.#open.set(
      name,
      open.filter((other) => other !== known),
    )
    return known
  }
}

function instructionText(instruction: AdkConfig['systemInstruction']): string {
  if (instruction === undefined) return ''
  if (typeof instruction === 'string') return instruction
  const parts = Array.isArray(instruction)
    ? instruction
    : 'parts' in instruction
      ? (instruction.parts ?? [])
      : [instruction]
  return parts
    .map((part) => {
      if (typeof part === 'string') return part
      if ('text' in part && typeof part.text === 'string') return part.text
      throw unknownPart(part as AdkPart, 'the system instruction')
    })
    .join('\n')
}

function assistantMessage({ parts = [] }: AdkContent, ids: CallIds): ChatMessage {
  let text = ''
  let thinking = ''
  const calls: ChatToolCall[] = []
  for (const part of parts) {
    if (part.functionCall) {
      const { id, name = '', args = {} } = part.functionCall
      const called = { name, arguments: JSON.stringify(args) }
      calls.push({ id: ids.ofCall(id, name), type: 'function', function: called })
    } else if (typeof part.text === 'string') {
      if (part.thought) thinking += part.text
      else text += part.text
    } else throw unknownPart(part, 'a turn of the model')
  }
  return {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    ...(thinking === '' ? {} : { reasoning_content: thinking }),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
}

/** Results of tools first: chat completions have them right behind their calls. */
function userMessages({ parts = [] }: AdkContent, ids: CallIds): ChatMessage[] {
  const results: ChatMessage[] = []
  const systems: ChatMessage[] = []
  const content: ChatContentPart[] = []
  for (const part of parts) {
    if (part.functionResponse) {
      const { id, name = '', response, parts: files = [] } = part.functionResponse
      if (files.length > 0) throw unknownPart(part, 'a result of a tool')
      const tool_call_id = ids.ofResponse(id, name)
      results.push({ role: 'tool', tool_call_id, content: resultText(response) })
    } else if (typeof part.partMetadata?.[roleKey] === 'string') {
      systems.push({ role: part.partMetadata[roleKey], content: part.text ?? '' })
    } else content.push(toContentPart(part))
  }
  if (content.length === 0) return [...results, ...systems]
  const isText = content.every(({ type }) => type === 'text')
  const whole = isText ? content.map(({ text }) => text ?? '').join('\n') : content
  return [...results, ...systems, { role: 'user', content: whole }]
}

/** What a tool returned; the ADK puts values other than objects into one. */
function resultText(response: Readonly<Record<string, unknown>> = {}): string {
  const { result, ...others } = response
  const isWrapped = 'result' in response && Object.keys(others).length === 0
  if (isWrapped && typeof result === 'string') return result
  return JSON.stringify(isWrapped ? (result ?? null) : response)
}

function toContentPart(part: AdkPart): ChatContentPart {
  if (typeof part.text === 'string') return { type: 'text', text: part.text }
  const { mimeType = '', data } = part.inlineData ?? {}
  const url =
    part.fileData?.fileUri ?? (data === undefined ? undefined : `data:${mimeType};base64,${data}`)
  const [kind] = (part.fileData?.mimeType ?? mimeType).split('/')
  if (url !== undefined && (kind === 'image' || kind === 'video')) {
    return { type: `${kind}_url`, [`${kind}_url`]: { url } }
  }
  if (data !== undefined && kind === 'audio') {
    const format = mimeType.split('/')[1] ?? ''
    return {
      type: 'input_audio',
      input_audio: { data, format: format === 'mpeg' ? 'mp3' : format },
    }
  }
  if (data !== undefined) {
    const { displayName } = part.inlineData ?? {}
    const filename = displayName === undefined ? {} : { filename: displayName }
    return { type: 'file', file: { file_data: url, ...filename } }
  }
  throw unknownPart(part, 'a message of the user')
}

function unknownPart(part: AdkPart, where: string): OsmosisError {
  const kinds = Object.keys(part).filter((key) => part[key as keyof AdkPart] !== undefined)
  return new OsmosisError(
    'invalid_request',
    `A part with ${kinds.map((kind) => JSON.stringify(kind)).join(', ') || 'nothing'} in ${where} has no chat completions form. Send text, calls of functions and their responses, and images, video, audio or files of the user.`,
  )
}
