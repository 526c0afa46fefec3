import { isDeepStrictEqual } from 'node:util'

import { OsmosisError } from '../errors.ts'
import { isMetadataSchema, type MetadataSchema } from '../workflow/metadata-schema.ts'
import { reference } from './reference.ts'

/**
 * 1 when the JSON of the answer is the expected one, else 0. It is the whole answer, else its last code
 * block, else the last object or array in its text that can be parsed. The order of keys does not count.
 *
 * @param expected - a label as JSON text, a value, or a schema of zod or another Standard Schema library
 * @throws OsmosisError with code `invalid_dataset` for a label that is not JSON; `invalid_config` for a value that JSON
 * cannot hold and for an asynchronous schema
 */
export function json(answer: string, expected: unknown): 0 | 1 {
  const isRight = isMetadataSchema(expected) ? fits(expected) : equals(expected)
  const said = lastJson(answer)
  return said !== undefined && isRight(said.value) ? 1 : 0
}

function fits(schema: MetadataSchema): (value: unknown) => boolean {
  return (value) => {
    const result = schema['~standard'].validate(value)
    if (!(result instanceof Promise)) return result.issues === undefined
    // No caller awaits it any more.
    result.catch(() => {})
    throw new OsmosisError(
      'invalid_config',
      'json needs a schema without asynchronous checks. Validate with the schema itself.',
    )
  }
}

function equals(expected: unknown): (value: unknown) => boolean {
  if (typeof expected !== 'string' && expected !== null) {
    const wanted = parse(plainText(expected))
    return (value) => isDeepStrictEqual(value, wanted?.value)
  }
  const label = reference('json', expected)
  const wanted = parse(label)
  if (wanted !== undefined) return (value) => isDeepStrictEqual(value, wanted.value)
  throw new OsmosisError(
    'invalid_dataset',
    `json needs a label in JSON, got ${JSON.stringify(label.slice(0, 100))}.`,
  )
}

/** JSON would write NaN and Infinity as null. */
function plainText(expected: unknown): string {
  const text = JSON.stringify(expected, (_, value: unknown) => {
    if (typeof value !== 'number' || Number.isFinite(value)) return value
    throw new OsmosisError(
      'invalid_config',
      `json cannot compare with ${value}: JSON has no such number.`,
    )
  }) as string | undefined
  if (text !== undefined) return text
  throw new OsmosisError('invalid_config', `json needs a value of JSON, got ${typeof expected}.`)
}

function lastJson(answer: string): { readonly value: unknown } | undefined {
  const whole = parse(answer)
  if (whole !== undefined) return whole
  const fence = [...answer.matchAll(/```(?:json)?[^\S\n]*\n([^]*?)```/gi)].at(-1)?.[1]
  const fenced = fence === undefined ? undefined : parse(fence)
  if (fenced !== undefined) return fenced
  for (const [from, to] of blocks(answer).toReversed()) {
    const block = parse(answer.slice(from, to))
    if (block !== undefined) return block
  }
  return undefined
}

function parse(text: string): { readonly value: unknown } | undefined {
  try {
    // -0 is 0.
    return { value: JSON.parse(text, (_, value: unknown) => (value === 0 ? 0 : value)) }
  } catch {
    return undefined
  }
}

/**
 * Where the outermost pairs of brackets begin and end. A part of a broken object is not an answer, so pairs inside a pair
 * are left out. One pass: the time must not grow with the square of what a policy wrote.
 */
function blocks(text: string): [from: number, to: number][] {
  const found: [number, number][] = []
  const open: number[] = []
  const counts: Record<string, number> = { '{': 0, '[': 0 }
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const character = text[at] ?? ''
    if (inString) {
      if (character === '\\') at++
      // A string of JSON has no line break, so a quotation mark of prose ends with its line.
      else if (character === '"' || character === '\n') inString = false
    } else if (character === '"') {
      inString = open.length > 0
    } else if (character === '{' || character === '[') {
      open.push(at)
      counts[character] = (counts[character] ?? 0) + 1
    } else if (character === '}' || character === ']') {
      const opening = character === '}' ? '{' : '['
      // Without a partner it is a bracket of prose.
      if (counts[opening] === 0) continue
      let from: number
      do {
        from = open.pop() ?? 0
        const closed = text[from] ?? ''
        counts[closed] = (counts[closed] ?? 0) - 1
      } while (text[from] !== opening)
      while ((found.at(-1)?.[0] ?? -1) > from) found.pop()
      found.push([from, at + 1])
    }
  }
  return found
}
