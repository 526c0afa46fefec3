/** The filter line, and how to change it. */
export interface Filtering {
  readonly query: string
  readonly onQuery: (query: string) => void
}

/** The term for a value of a text, e.g. `tag:"skipped check"`. A query has no sign for a quotation mark, and ignores them. */
export function textTerm(key: string, value: string): string {
  return `${key}:${/[\s"]/.test(value) ? `"${value.replaceAll('"', '')}"` : value}`
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
