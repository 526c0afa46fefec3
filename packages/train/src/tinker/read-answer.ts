import { randomBytes } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'
import { parseJson } from '@osmosis/core/http'
import type { AssistantMessage, ChatToolCall } from '@osmosis/core/policy'

import { isTextBySchema, parameterSchema } from './schema-types.ts'

/** How a family of models writes tool calls. What it cannot read stays in the content. */
type CallReader = (
  text: string,
  tools: ReadonlyMap<string, unknown>,
) => { readonly content: string; readonly calls: readonly ChatToolCall[] }

/**
 * What a model wrote, as a message.
 *
 * @param tools - the `tools` of the request; without any, nothing is a call
 */
export type ReadAnswer = (text: string, tools: readonly unknown[]) => AssistantMessage

/** Families of models with the mark of their chat templates; the first that matches counts. */
const families: readonly (readonly [mark: RegExp, name: string, read?: CallReader])[] = [
  [/You can call these functions:/, 'Hermes', hermesCalls],
  [/<arg_key>/, 'GLM'],
  [/<\|channel\|>/, 'gpt-oss'],
  [/<\|tool_call>/, 'Gemma'],
  [/<\|tool_call_start\|>/, 'LFM2'],
  [/tool▁call/, 'DeepSeek'],
  [/\[TOOL_CALLS\]/, 'Mistral'],
  [/<tool_call>[^]*<function=/, 'Qwen3-Coder', xmlCalls],
  [/<tool_call>/, 'Hermes', hermesCalls],
  [/<\|start_header_id\|>[^]*"parameters": /, 'Llama 3', llamaCalls],
]

/**
 * How to read the answers of a model, by the text of its chat template: tool calls in the form of Hermes and Qwen, of
 * Qwen3-Coder (XML) or of Llama 3 (JSON), and thinking.
 *
 * @throws OsmosisError with code `invalid_config` for a template with calls in another form
 */
export function answerReader(template: string): ReadAnswer {
  const [, family = 'an unknown family', readCalls] =
    families.find(([mark]) => mark.test(template)) ?? []
  if (readCalls === undefined) {
    throw new OsmosisError(
      'invalid_config',
      `By its chat template the model calls tools in the form of ${family}, which cannot be read. Known are those of Hermes and Qwen (<tool_call> with JSON), Qwen3-Coder (XML) and Llama 3 (JSON).`,
    )
  }
  const thinks = template.includes('</think>')
  return (text, tools) => {
    const { thinking, rest } = thinks ? withoutThinking(text) : { thinking: undefined, rest: text }
    const { content, calls } =
      tools.length > 0 ? readCalls(rest, schemasOf(tools)) : { content: rest, calls: [] }
    return {
      role: 'assistant',
      content: content.trim() === '' && calls.length > 0 ? null : content,
      ...(thinking === undefined ? {} : { reasoning_content: thinking }),
      ...(calls.length === 0 ? {} : { tool_calls: [...calls] }),
    }
  }
}

/** The schemas of the parameters, by the name of the tool. */
function schemasOf(tools: readonly unknown[]): Map<string, unknown> {
  const functions = tools.map(
    (tool) => (tool as { function?: { name?: string; parameters?: unknown } }).function,
  )
  return new Map(functions.map((one) => [one?.name ?? '', one?.parameters]))
}

/** A call within the thinking is none, also where the answer was cut off there. */
function withoutThinking(text: string): { thinking: string | undefined; rest: string } {
  const [all, thinking, rest = ''] = /^\s*<think>([^]*?)(?:<\/think>([^]*)|$)/.exec(text) ?? []
  if (all === undefined) return { thinking, rest: text }
  return { thinking: thinking?.replaceAll(/^\n+|\n+$/g, ''), rest: rest.replace(/^\n+/, '') }
}

function hermesCalls(text: string): ReturnType<CallReader> {
  return taggedCalls(text, (body) => jsonCall(body, ['arguments', 'parameters']))
}

function xmlCalls(text: string, tools: ReadonlyMap<string, unknown>): ReturnType<CallReader> {
  return taggedCalls(text, (body) => xmlCall(body, tools))
}

function taggedCalls(
  text: string,
  read: (body: string) => ChatToolCall | undefined,
): ReturnType<CallReader> {
  const calls: ChatToolCall[] = []
  const outside: string[] = []
  let at = 0
  for (const { 0: all, 1: body = '', index } of text.matchAll(/<tool_call>([^]*?)<\/tool_call>/g)) {
    const call = read(body)
    if (call === undefined) continue
    calls.push(call)
    outside.push(text.slice(at, index))
    at = index + all.length
  }
  if (calls.length === 0) return { content: text, calls }
  outside.push(text.slice(at))
  return { content: outside.map((part) => part.replace(/\n+$/, '')).join(''), calls }
}

/** The whole answer is `{"name": …, "parameters": …}`; several are separated by semicolons. */
function llamaCalls(text: string, tools: ReadonlyMap<string, unknown>): ReturnType<CallReader> {
  const body = text.trim().replace(/^<\|python_tag\|>/, '')
  for (const parts of [[body], body.split(/(?<=\})\s*;\s*(?=\{)/)]) {
    const calls = parts.flatMap((part) => jsonCall(part, ['parameters', 'arguments']) ?? [])
    const areOffered = calls.every((call) => tools.has(call.function.name))
    if (calls.length === parts.length && areOffered) return { content: '', calls }
  }
  return { content: text, calls: [] }
}

function xmlCall(text: string, tools: ReadonlyMap<string, unknown>): ChatToolCall | undefined {
  const [, name, body = ''] = /^\s*<function=([^>\n]+)>([^]*)<\/function>\s*$/.exec(text) ?? []
  const parameter = /<parameter=([^>\n]+)>\n?([^]*?)\n?<\/parameter>/g
  if (name === undefined || body.replaceAll(parameter, '').trim() !== '') return undefined
  const root = tools.get(name)
  const values = new Map<string, string>()
  for (const [, key = '', value = ''] of body.matchAll(parameter)) {
    const json = parseJson(value)
    const isText =
      json === undefined || isTextBySchema(value, json, parameterSchema(root, key), root)
    values.set(key, isText ? JSON.stringify(value) : value.trim())
  }
  const members = Array.from(values, ([key, value]) => `${JSON.stringify(key)}: ${value}`)
  return toCall(name, `{${members.join(', ')}}`)
}

/**
 * A call in JSON. Its arguments are the text that the model wrote.
 *
 * @param keys - where the arguments stand; models that write in one form at times use the key of another
 */
function jsonCall(text: string, keys: readonly string[]): ChatToolCall | undefined {
  const call = (parseJson(text) ?? {}) as Record<string, unknown>
  const key = keys.find((one) => Object.hasOwn(call, one)) ?? ''
  const { name, [key]: args = {} } = call
  if (typeof name !== 'string' || typeof args !== 'object' || args === null) return undefined
  return Array.isArray(args) ? undefined : toCall(name, memberText(text, key) ?? '{}')
}

function toCall(name: string, args: string): ChatToolCall {
  const id = `call_${randomBytes(12).toString('hex')}`
  return { id, type: 'function', function: { name, arguments: args } }
}

/** The text of the value of a key in the JSON text of an object; of the last value when there are several, as in `JSON.parse`. */
function memberText(json: string, key: string): string | undefined {
  const token = /"(?:[^"\\]|\\.)*"|[{}[\]:,]/g
  let depth = 0
  let name: string | undefined
  let start: number | undefined
  let last: string | undefined
  for (const { 0: text, index } of json.matchAll(token)) {
    if (text === '{' || text === '[') depth += 1
    if (text === '}' || text === ']') depth -= 1
    if (depth === 0 || (depth === 1 && text === ',')) {
      if (start !== undefined) last = json.slice(start, index).trim()
      name = start = undefined
    } else if (depth === 1 && text === ':') {
      if (name === key) start = index + 1
    } else if (depth === 1 && text.startsWith('"')) name ??= JSON.parse(text) as string
  }
  return last
}
