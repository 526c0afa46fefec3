/** What every answer of the platform is. */
export type JsonObject = Readonly<Record<string, unknown>>

/** Whether a JSON value is an object. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A text of an answer; undefined for anything else and for an empty one. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** A list of objects in an answer; other things in it are left out. */
export function objectsOf(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : []
}

/** A part of a list, or all of it. */
export interface Page {
  readonly items: readonly JsonObject[]
  /** Null when the platform does not say. */
  readonly totalCount: number | null
  readonly hasMore: boolean
  /** Where the next page begins; null behind the last. */
  readonly nextOffset: number | null
}

/** Most items the platform gives at once. */
const largestPage = 50

/**
 * Reads one page of a list, or every page.
 *
 * @param ask - asks for one page
 * @param key - where the answer has the items
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
    // A list that does not move on would be read for ever.
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
