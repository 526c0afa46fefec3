import { exactDecimal } from './number/exact-number.ts'

export interface JsonOptions {
  /** Whether integers beyond 2^53 are a bigint instead of a rounded number. Default: false. */
  readonly exactIntegers?: boolean
}

/**
 * The JSON of an answer: the whole answer, else what its last JSON code block has, else the last object or array in its
 * text. Code blocks of other languages count only where nothing else has any. A part of a value that is broken or cut
 * off is none.
 */
export function lastJson(
  answer: string,
  options: JsonOptions = {},
): { readonly value: unknown } | undefined {
  const whole = parseJson(answer, options)
  if (whole !== undefined) return whole
  const fences = [...answer.matchAll(fence)].map(({ groups = {} }) => groups)
  const own = fences.findLast(
    ({ language = '', inside = '' }) =>
      /^jsonc?5?$/i.test(language) || (language === '' && parseJson(inside) !== undefined),
  )
  if (own !== undefined) {
    const inside = own['inside'] ?? ''
    return parseJson(inside, options) ?? lastBlock(inside, options)
  }
  return lastBlock(answer.replaceAll(fence, '\n'), options) ?? lastBlock(answer, options)
}

/**
 * Its end stands at the end of a line, because a string of JSON may have backticks. What follows a run must not be a part of
 * it: the time must not grow with the square of what a policy wrote.
 */
const fence =
  /(?<![`~])(?<ticks>`{3,}|~{3,})(?![`~])(?:[^\S\n]*(?<language>[^\s`~]+)(?![^\s`~]))?[^\n`~]*\n(?<inside>[^]*?)(?:\k<ticks>[^\S\n]*(?=\n|$)|$)/g

/** Undefined for a text that is not JSON. */
export function parseJson(
  text: string,
  { exactIntegers = false }: JsonOptions = {},
): { readonly value: unknown } | undefined {
  const revive = (
    _: string,
    value: unknown,
    { source = '' }: { source?: string } = {},
  ): unknown => {
    // -0 is 0.
    if (value === 0) return 0
    const isRounded = typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER
    return (exactIntegers && isRounded ? exactInteger(source) : undefined) ?? value
  }
  try {
    return { value: JSON.parse(text, revive) }
  } catch {
    return undefined
  }
}

/** Undefined for a number that is no integer. */
function exactInteger(source: string): bigint | undefined {
  const isNegative = source.startsWith('-')
  const { above, below } = exactDecimal(source.replace('-', '')) ?? { above: 1n, below: 2n }
  if (above % below !== 0n) return undefined
  return (isNegative ? -1n : 1n) * (above / below)
}

function lastBlock(text: string, options: JsonOptions): { readonly value: unknown } | undefined {
  for (const [from, to] of blocks(text).toReversed()) {
    const block = parseJson(text.slice(from, to), options)
    if (block !== undefined) return block
  }
  return undefined
}

/**
 * Where the outermost pairs of brackets begin and end; none when the text ends in a value that is cut off. A part of a
 * broken object is not an answer, so pairs inside a pair are left out. One pass: the time must not grow with the square of
 * what a policy wrote.
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
  return isCutOff(text, open) ? [] : found
}

const token = /\s*(?:"(?:[^"\\\n]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[,:{}[\]])/y
const cutToken = /\s*(?:"(?:[^"\\\n]|\\.)*\\?|[a-z]{0,4}|-?)$/y

/** Whether only JSON follows one of these brackets up to the end. Behind a bracket of prose something else does. */
function isCutOff(text: string, brackets: readonly number[]): boolean {
  let end = 0
  for (const bracket of brackets) {
    if (bracket < end) continue
    end = bracket
    for (token.lastIndex = end; token.test(text);) end = token.lastIndex
    cutToken.lastIndex = end
    if (cutToken.test(text)) return true
  }
  return false
}
