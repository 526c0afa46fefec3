import type { ModelMessage } from 'ai'

/**
 * Messages as they can be stored: bytes in base64, URLs as text, and no properties without a value,
 * of which the SDK leaves many.
 */
export function plainMessages(messages: readonly ModelMessage[]): unknown[] {
  return messages.map(plain)
}

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (value instanceof ArrayBuffer) return Buffer.from(value).toString('base64')
  if (Array.isArray(value)) return value.map(plain)
  if (value instanceof URL) return value.href
  if (value instanceof Date) return value.toISOString()
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, field]) => field !== undefined)
      .map(([key, field]) => [key, plain(field)]),
  )
}
