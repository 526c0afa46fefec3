import { isJsonObject } from '@osmosis/core/http'
/** The body of every answer of the platform. */
export type JsonObject = Readonly<Record<string, unknown>>

/** A string of an answer; undefined for an empty one and for other types. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** The objects of a list in an answer; other items are ignored. */
export function objectsOf(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : []
}

/** A part of a list, or all of it. */
export interface Page {
  readonly items: readonly JsonObject[]
  /** Null when the platform does not send it. */
  readonly totalCount: number | null
  readonly hasMore: boolean
  /** Offset of the next page; null after the last one. */
  readonly nextOffset: number | null
}

/** Which part of a list is read; by default the first page. */
export interface ListRange {
  readonly limit?: number | undefined
  readonly offset?: number | undefined
  /** Whether all pages are read. */
  readonly all?: boolean | undefined
}

/** Reads a page from an answer; `key` is that of its items. */
export function toPage(answer: JsonObject, key: string, offset: number): Page {
  const items = objectsOf(answer[key])
  const { total_count: total, has_more: more, next_offset: next } = answer
  const hasMore = more === true || typeof next === 'number'
  return {
    items,
    totalCount: typeof total === 'number' ? total : null,
    hasMore,
    nextOffset: typeof next === 'number' ? next : hasMore ? offset + items.length : null,
  }
}
