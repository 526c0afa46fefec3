import { isJsonObject } from '@osmosis/core/http'

import { toTelemetryJson } from '../http/telemetry-json.ts'
import { parsePlainJson } from '../wire/exact-json.ts'
import type { TrajectoryContent, TrajectoryStep, TrajectoryToolCall } from './atif.ts'

type ContentPart = Exclude<TrajectoryContent, string>[number]
type ImagePart = Extract<ContentPart, { type: 'image' }>

const mediaTypes: ReadonlySet<string> = new Set<ImagePart['source']['media_type']>([
  'image/jpeg',
  'image/png',
  'image/gif',
  'image/webp',
])

/**
 * The image of a message part of chat completions (`image_url`) or of the OpenAI Agents SDK (`input_image`). Its
 * path is the URL, which may be a data URL.
 *
 * @returns undefined for another part, and for a media type that documents cannot have
 */
function toImagePart(part: unknown): ImagePart | undefined {
  const url = imageUrl(part)
  if (url === undefined) return undefined
  const mediaType = mediaTypeOf(url)
  if (!isMediaType(mediaType)) return undefined
  return { type: 'image', source: { media_type: mediaType, path: url } }
}

function imageUrl(part: unknown): string | undefined {
  if (typeof part !== 'object' || part === null) return undefined
  const { type, image_url: given, image = given } = part as Record<string, unknown>
  if (type !== 'image_url' && type !== 'input_image') return undefined
  const url = typeof image === 'string' ? image : (image as { url?: unknown } | undefined)?.url
  return typeof url === 'string' ? url : undefined
}

/** The media type that the URL states, or else `image/png`. */
function mediaTypeOf(url: string): string {
  const [, given] = /^data:([^;,]*)/i.exec(url) ?? []
  if (given !== undefined) return given.toLowerCase().replace('image/jpg', 'image/jpeg')
  const [, ending = 'png'] = /\.([a-z]+)(?:[?#]|$)/i.exec(url) ?? []
  const mediaType = `image/${ending.toLowerCase().replace(/^jpg$/, 'jpeg')}`
  return isMediaType(mediaType) ? mediaType : 'image/png'
}

function isMediaType(mediaType: string): mediaType is ImagePart['source']['media_type'] {
  return mediaTypes.has(mediaType)
}

type Fields = Readonly<Record<string, unknown>>

/** A conversation as the steps of a document. */
export interface ConversationSteps {
  readonly steps: TrajectoryStep[]
  /** For each message its step. */
  readonly stepOf: readonly TrajectoryStep[]
}

const sourceOfRole = new Map<unknown, TrajectoryStep['source']>([
  ['system', 'system'],
  ['developer', 'system'],
  ['user', 'user'],
  ['assistant', 'agent'],
])
const toolRoles = new Set<unknown>(['tool', 'function'])

/**
 * Messages in chat completions form as steps; other items of the list become steps with their JSON as
 * text. Results of tools are put into the step of the call that they answer.
 */
export function toSteps(messages: readonly unknown[]): ConversationSteps {
  const steps: TrajectoryStep[] = []
  const stepOf = messages.map((message) => {
    const fields = plainFields(message)
    const previous = steps.at(-1)
    if (toolRoles.has(fields['role']) && previous?.source === 'agent') {
      addResult(previous, fields)
      return previous
    }
    const step = { step_id: steps.length + 1, ...stepContent(fields) }
    steps.push(step)
    return step
  })
  return { steps, stepOf }
}

/** A message as plain JSON data. */
function plainFields(message: unknown): Fields {
  return toTelemetryJson(isJsonObject(message) ? message : { content: message }, new Set())
}

function stepContent(message: Fields): Omit<TrajectoryStep, 'step_id'> {
  const { role, content, tool_calls: calls, name, refusal, tool_call_id: callId } = message
  const reasoning = message['reasoning_content'] ?? message['reasoning']
  const extra: Record<string, unknown> = {}
  if (isGiven(name)) extra['name'] = name
  if (isGiven(refusal)) extra['refusal'] = refusal

  if (toolRoles.has(role)) {
    // A result without a call before it: the policy saw it, so the document has it.
    if (isGiven(callId)) extra['tool_call_id'] = callId
    extra['original_role'] = role
    return { source: 'system', message: '', ...observed({ content: toContent(content) }), extra }
  }
  const source = sourceOfRole.get(role)
  if (source === 'agent') {
    return {
      source,
      message: toContent(content),
      ...(isGiven(reasoning) ? { reasoning_content: toText(reasoning) } : {}),
      ...toolCalls(calls),
      ...unlessEmpty(extra),
    }
  }
  if (isGiven(reasoning)) extra['reasoning_content'] = reasoning
  if (isGiven(calls)) extra['tool_calls'] = calls
  if (source !== undefined) return { source, message: toContent(content), ...unlessEmpty(extra) }
  if (typeof role === 'string') extra['original_role'] = role
  // Not a chat message, so everything in it may matter.
  const text = content === undefined ? JSON.stringify(message) : toContent(content)
  return { source: 'user', message: text, ...unlessEmpty(extra) }
}

function addResult(step: TrajectoryStep, { content, tool_call_id: callId, name }: Fields): void {
  const isKnown = step.tool_calls?.some(({ tool_call_id: id }) => id === callId) ?? false
  const extra: Record<string, unknown> = {}
  if (isGiven(callId) && !isKnown) extra['tool_call_id'] = callId
  if (isGiven(name)) extra['name'] = name
  const result = {
    ...(isKnown ? { source_call_id: callId as string } : {}),
    content: toContent(content),
    ...unlessEmpty(extra),
  }
  if (step.observation) step.observation.results.push(result)
  else Object.assign(step, observed(result))
}

function observed(
  result: NonNullable<TrajectoryStep['observation']>['results'][number],
): Pick<TrajectoryStep, 'observation'> {
  return { observation: { results: [result] } }
}

function toolCalls(value: unknown): { tool_calls?: TrajectoryToolCall[] } {
  if (!Array.isArray(value)) return {}
  const calls = value.flatMap((call: unknown, index): TrajectoryToolCall[] => {
    if (!isJsonObject(call)) return []
    const called = isJsonObject(call['function']) ? call['function'] : call
    const { id = call['tool_call_id'] } = call
    return [
      {
        tool_call_id: typeof id === 'string' && id !== '' ? id : `call_${index}`,
        function_name: typeof called['name'] === 'string' ? called['name'] : 'unknown',
        arguments: toArguments(called['arguments']),
      },
    ]
  })
  return calls.length === 0 ? {} : { tool_calls: calls }
}

/** The arguments that a policy writes may be anything, even invalid JSON. A number that would lose digits becomes text. */
function toArguments(value: unknown): Record<string, unknown> {
  if (!isGiven(value) || value === '') return {}
  if (isJsonObject(value)) return { ...value }
  if (typeof value !== 'string') return { _raw: JSON.stringify(value) }
  try {
    const parsed = parsePlainJson(value)
    const dropped = new Set<string>()
    if (isJsonObject(parsed)) {
      const plain = toTelemetryJson(parsed, dropped)
      if (dropped.size === 0) return plain
    }
  } catch {
    // Stored as it was written.
  }
  return { _raw: value }
}

/** A list of texts and images as parts; everything else as {@link toText}. */
function toContent(content: unknown): TrajectoryContent {
  if (!Array.isArray(content)) return toText(content)
  const parts = content.map((part: unknown) =>
    isTextPart(part) ? { type: 'text' as const, text: part.text } : toImagePart(part),
  )
  const isWhole = parts.every((part) => part !== undefined)
  return isWhole && parts.some(({ type }) => type === 'image') ? parts : toText(content)
}

/** Text and text parts as text; null as no text; everything else as JSON. */
function toText(content: unknown): string {
  if (typeof content === 'string') return content
  if (!isGiven(content)) return ''
  if (Array.isArray(content) && content.length > 0 && content.every(isTextPart)) {
    return content.map(({ text }) => text).join('\n')
  }
  return JSON.stringify(content)
}

function isTextPart(part: unknown): part is { text: string } {
  return isJsonObject(part) && part['type'] === 'text' && typeof part['text'] === 'string'
}

function isGiven(value: unknown): boolean {
  return value !== null && value !== undefined
}

function unlessEmpty(extra: Record<string, unknown>): { extra?: Record<string, unknown> } {
  return Object.keys(extra).length === 0 ? {} : { extra }
}
