/**
 * A text of an answer, which may be missing.
 *
 * @throws TypeError when it is something else
 */
export function asText(value: unknown): string | null | undefined {
  if (typeof value === 'string' || value === null || value === undefined) return value
  throw new TypeError('expected a text')
}

/**
 * An object of an answer.
 *
 * @throws TypeError when it is something else
 */
export function asObject<T extends object>(value: T): T {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new TypeError('expected an object')
}
