/** The filter line, and how to change it. */
export interface Filtering {
  readonly query: string
  readonly onQuery: (query: string) => void
}

/** Whether a filter line contains a term, e.g. `tool:cancel`. */
export function hasTerm(query: string, term: string): boolean {
  return ` ${query} `.includes(` ${term} `)
}

/** Adds a term to the filter line, or removes it. */
export function toggleTerm(query: string, term: string): string {
  const toggled = hasTerm(query, term) ? ` ${query} `.replace(` ${term} `, ' ') : `${query} ${term}`
  return toggled.trim()
}
