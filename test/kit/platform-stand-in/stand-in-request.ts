/** A request to the stand-in of the platform. */
export interface StandInRequest {
  readonly method: string
  /** Segments of the path below `/api/cli`, decoded; of the whole path elsewhere. */
  readonly path: readonly string[]
  readonly query: URLSearchParams
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly raw: Buffer
  /** Parsed from `raw`; `{}` for what is not a JSON object. */
  readonly body: Readonly<Record<string, unknown>>
}

/** An answer of the stand-in. */
export interface StandInAnswer {
  readonly status?: number
  /** Text and bytes are sent unchanged, anything else as JSON. Default: no body. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** A refusal. */
export function refusal(
  status: number,
  message: string,
  more: Readonly<Record<string, unknown>> = {},
): StandInAnswer {
  return { status, body: { message, ...more } }
}

/** One page of a list, by `limit` and `offset` of a query. */
export function page(key: string, all: readonly unknown[], query: URLSearchParams): StandInAnswer {
  const limit = Math.min(Number(query.get('limit') ?? 50), 50)
  const offset = Number(query.get('offset') ?? 0)
  const end = offset + limit
  const hasMore = end < all.length
  return {
    body: {
      [key]: all.slice(offset, end),
      total_count: all.length,
      has_more: hasMore,
      next_offset: hasMore ? end : null,
    },
  }
}

/** A page of log lines, which begins at a cursor. */
export function logPage(lines: readonly unknown[], query: URLSearchParams): StandInAnswer {
  const limit = Number(query.get('limit') ?? 50)
  const start = Number(query.get('cursor') ?? 0)
  const end = start + limit
  return {
    body: { logs: lines.slice(start, end), next_cursor: end < lines.length ? String(end) : null },
  }
}
