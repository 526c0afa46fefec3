/** Wrong key, no right to the model, unknown address or model. */
const refusals = new Set([401, 403, 404])
const longestText = 500

/**
 * Why no later model call could be answered either, when that is what an answer says; null for an
 * answer, and for trouble that may pass or belong to this call alone, such as a rate limit.
 */
export function systemicFailure(status: number, text: string): string | null {
  if (refusals.has(status)) return `The policy answered ${status}: ${text.slice(0, longestText)}`
  // A gateway of the endpoint answers 502 as well: only the code tells that nobody was there.
  if (status !== 502) return null
  const { code, message } = errorIn(text)
  return code === 'policy_unreachable' ? String(message) : null
}

function errorIn(text: string): { code?: unknown; message?: unknown } {
  try {
    return (JSON.parse(text) as { error?: { code?: unknown; message?: unknown } }).error ?? {}
  } catch {
    return {}
  }
}
