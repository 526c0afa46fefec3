import { isJsonObject, parseJson } from '@osmosis/core/http'

import type { SpokenTurn } from './traces.ts'

/** An object of unknown shape. */
export type Fields = Readonly<Record<string, unknown>>

/** The fields of an object; none for anything else. */
export function fieldsOf(value: unknown): Fields {
  return isJsonObject(value) ? value : {}
}

/** The objects of a list; none for anything else. */
export function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : []
}

/** A text; undefined for anything else and for an empty one. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value : undefined
}

/** A value, or what its text means as JSON. */
export function unpacked(value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value
  const parsed = parseJson(value)
  return parsed === undefined ? value : parsed
}

/** The text of contents in the form of any of the formats: text, or parts of which some have text. */
export function contentText(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return textOf(fieldsOf(content)['text']) ?? ''
  const texts = content.map((part: unknown) => {
    if (typeof part === 'string') return part
    const { type = 'text', text, content: own } = fieldsOf(part)
    if (!['text', 'input_text', 'output_text'].includes(String(type))) return ''
    return textOf(text) ?? textOf(own) ?? ''
  })
  return texts.filter((text) => text !== '').join('\n')
}

const roles: Readonly<Record<string, SpokenTurn['role']>> = {
  system: 'system',
  developer: 'system',
  user: 'user',
  human: 'user',
  assistant: 'assistant',
  ai: 'assistant',
  model: 'assistant',
  agent: 'assistant',
  tool: 'tool',
}

/**
 * The turns of messages, which may be text of JSON, a list, or an object around one, which may have instructions beside
 * them as requests of Anthropic and OpenAI do. A text alone is a question.
 */
export function turnsOf(given: unknown): SpokenTurn[] {
  const value = unpacked(given)
  if (typeof value === 'string') return value.trim() === '' ? [] : [{ role: 'user', text: value }]
  if (!Array.isArray(value)) {
    const { messages, input, role, system, instructions } = fieldsOf(value)
    if (role !== undefined) return turnsOf([value])
    const inner = messages ?? input
    return inner === undefined
      ? []
      : [...instructionTurns(system ?? instructions), ...turnsOf(inner)]
  }
  return listOf(value).flatMap(({ role, source, content, parts, message }) => {
    const own = roles[textOf(role) ?? textOf(source) ?? '']
    const text = contentText(parts ?? content ?? message)
    return own === undefined || text === '' ? [] : [{ role: own, text }]
  })
}

/** The turn of an agent's instructions; none without any. */
export function instructionTurns(content: unknown): SpokenTurn[] {
  const text = contentText(content)
  return text === '' ? [] : [{ role: 'system', text }]
}

/** The last answer among messages, completions or output items; a text is an answer by itself. */
export function answerOf(given: unknown): string | undefined {
  const value = unpacked(given)
  if (typeof value === 'string') return textOf(value)
  if (!Array.isArray(value)) {
    const { choices, message, output, role, type } = fieldsOf(value)
    if (role === undefined && type === undefined) {
      const inner = choices ?? message ?? output
      if (inner !== undefined) return answerOf(inner)
    }
    return role === 'user' || role === 'tool' ? undefined : textOf(contentText(partsOf(value)))
  }
  return value.map(answerOf).findLast((text) => text !== undefined)
}

function partsOf(message: unknown): unknown {
  const { parts, content } = fieldsOf(message)
  return parts ?? content
}
