/** Whether a filter line has a part as it is written, e.g. `tool:cancel`. */
export function hasTerm(query: string, term: string): boolean {
  return ` ${query} `.includes(` ${term} `)
}

/** The filter line with the part, or without it if it has it. */
export function turnTerm(query: string, term: string): string {
  const turned = hasTerm(query, term) ? ` ${query} `.replace(` ${term} `, ' ') : `${query} ${term}`
  return turned.trim()
}
