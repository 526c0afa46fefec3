import { randomBytes } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'
import type { AssistantMessage, ChatToolCall } from '@osmosis/core/policy'

/** How a family of models writes tool calls. */
type CallReader = (text: string) => { readonly content: string; readonly calls: ChatToolCall[] }

/** What a model wrote, as a message. */
export type ReadAnswer = (text: string) => AssistantMessage

/**
 * How to read the answers of a model, by the text of its chat template: tool calls in the form of Hermes and Qwen, of
 * Qwen3-Coder (XML) or of Llama 3 (JSON), and thinking. A call that cannot be read stays in the content.
 *
 * @throws OsmosisError with code `invalid_config` for a template that takes tools in another form
 */
export function answerReader(template: string): ReadAnswer {
  const readCalls = callReader(template)
  const thinks = template.includes('</think>')
  return (text) => {
    const { thinking, rest } = thinks ? withoutThinking(text) : { thinking: undefined, rest: text }
    const { content, calls } = readCalls(rest)
    const said = calls.length > 0 ? content.trim() : content
    return {
      role: 'assistant',
      content: said === '' && calls.length > 0 ? null : said,
      ...(thinking === undefined ? {} : { reasoning_content: thinking }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    }
  }
}

function callReader(template: string): CallReader {
  if (template.includes('<function=')) return xmlCalls
  if (template.includes('<tool_call>')) return hermesCalls
  if (template.includes('<|python_tag|>') || template.includes('"parameters":')) return llamaCalls
  if (!/\btools\b/.test(template)) return (text) => ({ content: text, calls: [] })
  throw new OsmosisError(
    'invalid_config',
    'The chat template of the model takes tools in a form that is not known. Known are those of Hermes and Qwen (<tool_call> with JSON), Qwen3-Coder (XML) and Llama 3 (JSON).',
  )
}

function withoutThinking(text: string): { thinking: string | undefined; rest: string } {
  const end = text.indexOf('</think>')
  if (end === -1) return { thinking: undefined, rest: text }
  const thinking = text
    .slice(0, end)
    .replace(/^\s*<think>\n?/, '')
    .replace(/\n$/, '')
  return { thinking, rest: text.slice(end + '</think>'.length).replace(/^\n+/, '') }
}

const hermesCalls: CallReader = (text) => {
  const calls: ChatToolCall[] = []
  const content = text.replaceAll(
    /<tool_call>\s*([^]*?)\s*<\/tool_call>\n?/g,
    (all, body: string) => {
      const call = jsonCall(body, 'arguments')
      if (call === undefined) return all
      calls.push(call)
      return ''
    },
  )
  return { content, calls }
}

const llamaCalls: CallReader = (text) => {
  const body = text.replace(/^\s*<\|python_tag\|>/, '').trim()
  const call = jsonCall(body, 'parameters')
  return call === undefined ? { content: text, calls: [] } : { content: '', calls: [call] }
}

const xmlCalls: CallReader = (text) => {
  const calls: ChatToolCall[] = []
  const pattern = /<tool_call>\s*<function=([^>\s]+)>([^]*?)<\/function>\s*<\/tool_call>\n?/g
  const content = text.replaceAll(pattern, (_all, name: string, body: string) => {
    const parameters = body.matchAll(/<parameter=([^>\s]+)>\n?([^]*?)\n?<\/parameter>/g)
    const values = Array.from(parameters, ([, key = '', value = '']) => [key, jsonOr(value)])
    calls.push(toCall(name, JSON.stringify(Object.fromEntries(values))))
    return ''
  })
  return { content, calls }
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** A call as JSON. Its arguments are the text that the model wrote. */
function jsonCall(text: string, key: 'arguments' | 'parameters'): ChatToolCall | undefined {
  try {
    const { name } = JSON.parse(text) as { name?: unknown }
    if (typeof name !== 'string') return undefined
    return toCall(name, memberText(text, key) ?? '{}')
  } catch {
    return undefined
  }
}

function toCall(name: string, args: string): ChatToolCall {
  const id = `call_${randomBytes(12).toString('hex')}`
  return { id, type: 'function', function: { name, arguments: args } }
}

/** The text of the value of a key in the JSON text of an object. */
function memberText(json: string, key: string): string | undefined {
  const token = /"(?:[^"\\]|\\.)*"|[{}[\]:,]/g
  let depth = 0
  let name: string | undefined
  let start: number | undefined
  for (const { 0: text, index } of json.matchAll(token)) {
    if (text === '{' || text === '[') depth += 1
    else if (text === '}' || text === ']') {
      depth -= 1
      if (depth === 0 && start !== undefined) return json.slice(start, index).trim()
    } else if (depth === 1 && text === ':') {
      if (name === key) start = index + 1
    } else if (depth === 1 && text === ',') {
      if (start !== undefined) return json.slice(start, index).trim()
      name = undefined
    } else if (depth === 1 && start === undefined && name === undefined) {
      name = JSON.parse(text) as string
    }
  }
  return undefined
}
