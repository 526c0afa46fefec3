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

/** Maximum number of items in a page. */
const largestPage = 50

/**
 * Reads one page of a list, or every page.
 *
 * @param ask - requests one page
 * @param key - key of the items in the answer
 */
export async function readPages(
  ask: (query: { limit: number; offset: number }) => Promise<JsonObject>,
  key: string,
  {
    all = false,
    limit = largestPage,
    offset = 0,
  }: { all?: boolean; limit?: number; offset?: number },
): Promise<Page> {
  const first = toPage(await ask({ limit, offset }), key, offset)
  if (!all) return first
  const items = [...first.items]
  let last = first
  while (last.nextOffset !== null) {
    const from = last.nextOffset
    last = toPage(await ask({ limit, offset: from }), key, from)
    items.push(...last.items)
    // Ends at a page that does not advance, to avoid an endless loop.
    if (last.nextOffset !== null && last.nextOffset <= from) break
  }
  return { ...last, items }
}

function toPage(answer: JsonObject, key: string, offset: number): Page {
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
