import type { ParquetParsers } from 'hyparquet'

import { parseExactJson, WrittenNumber } from './exact-json.ts'
import { utf8Text } from './utf8-text.ts'
import { DataProblem } from './raw-row.ts'

/** Text and JSON as hyparquet reads them, but exact; what is neither stays bytes. */
export const exactParsers: Partial<ParquetParsers> = {
  stringFromBytes: (bytes) => utf8Text(bytes) ?? bytes,
  jsonFromBytes: (bytes) => {
    const text = utf8Text(bytes)
    if (text === undefined) return bytes
    try {
      return parseExactJson(text)
    } catch {
      return text
    }
  },
}

/**
 * Turns a value of hyparquet into what `parseExactJson` returns for such values.
 *
 * @throws DataProblem
 */
export function toCell(value: unknown): unknown {
  if (value === undefined || value === null) return null
  if (typeof value === 'bigint') return parseExactJson(String(value))
  if (typeof value === 'number') return numberCell(value)
  if (typeof value !== 'object' || value instanceof WrittenNumber) return value
  if (value instanceof Date) return dateCell(value)
  if (value instanceof Uint8Array) return bytesCell(value)
  if (Array.isArray(value)) return value.map(toCell)
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, toCell(part)]))
}

function numberCell(value: number): number {
  if (!Number.isFinite(value)) {
    throw new DataProblem(
      `expected a number, got ${value}, which JSON does not know; write null or text`,
    )
  }
  return value
}

function dateCell(date: Date): string {
  if (Number.isNaN(date.getTime())) {
    throw new DataProblem('expected a date within 270,000 years of 1970; write it as text')
  }
  return date.toISOString()
}

function bytesCell(bytes: Uint8Array): string {
  const text = utf8Text(bytes)
  if (text === undefined) {
    throw new DataProblem(
      'expected text, got bytes that are not UTF-8; write them as text (base64, say) or remove the column',
    )
  }
  return text
}
