/** A JSON number whose written form must be preserved: `1.0`, `1e3`, integers beyond 2^53. */
export class WrittenNumber {
  readonly value: number
  readonly source: string

  constructor(value: number, source: string) {
    this.value = value
    this.source = source
  }
}

/**
 * Parses JSON. A number that JavaScript would write differently, or cannot represent exactly, becomes a
 * {@link WrittenNumber}.
 *
 * @throws SyntaxError
 */
export function parseExactJson(text: string): unknown {
  return JSON.parse(text, (_key, value: unknown, context?: { source?: string }) => {
    const source = context?.source
    if (typeof value !== 'number' || source === undefined) return value
    const isExact = String(value) === source && !isLargeInteger(value)
    return isExact ? value : new WrittenNumber(value, source)
  })
}

// Digits beyond 2^53, and exponents beyond what a number can hold.
const mayBeInexact = /\d{16}|\d[eE]\+?\d{3}/

/**
 * Parses JSON as plain data. What a number cannot hold, such as an integer beyond 2^53, becomes text, so that no digit
 * changes silently.
 *
 * @throws SyntaxError
 */
export function parsePlainJson(text: string): unknown {
  return mayBeInexact.test(text) ? toPlainJson(parseExactJson(text), 'text') : JSON.parse(text)
}

/** The JSON text of a value of {@link parseExactJson}, with numbers as they were written. */
export function toExactText(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    part instanceof WrittenNumber ? rawJson(part.source) : part,
  )
}

/** The type for integers beyond 2^53, so that no digit changes silently. */
export type LargeIntegers = 'text' | 'bigint'

/** A value of {@link parseExactJson} as plain JSON data, except for large integers. */
export function toPlainJson(value: unknown, large: LargeIntegers): unknown {
  if (value instanceof WrittenNumber) return toPlainNumber(value, large)
  if (Array.isArray(value)) return value.map((part) => toPlainJson(part, large))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, toPlainJson(part, large)]),
  )
}

function toPlainNumber(
  { value, source }: WrittenNumber,
  large: LargeIntegers,
): number | string | bigint {
  if (!/^-?\d+$/.test(source)) return Number.isFinite(value) ? value : source
  if (!isLargeInteger(value)) return value
  return large === 'bigint' ? BigInt(source) : source
}

function isLargeInteger(value: number): boolean {
  return Math.abs(value) > Number.MAX_SAFE_INTEGER
}

// Node.js has JSON.rawJSON since version 21; TypeScript's library for ES2024 does not declare it.
function rawJson(text: string): unknown {
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(text)
}
