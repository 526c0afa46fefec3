/**
 * The `stop` parameter in the form that is sent: a list of strings, or null to leave it out. A
 * string becomes a list of one, other items of a list become text, anything else is left out.
 */
export function normalizeStop(stop: unknown): string[] | null {
  if (typeof stop === 'string') return [stop]
  return Array.isArray(stop) ? stop.map(String) : null
}
