/**
 * Codes of JSON-RPC with which clients report what no server said: that the connection was closed,
 * and that an answer took too long.
 */
const codesOfClients: ReadonlySet<unknown> = new Set([-32_000, -32_001])

/**
 * True for an error that an MCP server gave as its answer, and not one of the way to it. Such an
 * error has the `code` and `data` of JSON-RPC, though there may be nothing in `data`. The number
 * alone would not do: errors of HTTP have their status there.
 */
export function isAnsweredError(error: unknown): boolean {
  if (!(error instanceof Error && 'code' in error && 'data' in error)) return false
  return Number.isInteger(error.code) && !codesOfClients.has(error.code)
}
