/** Data that cannot be used. The message does not say where it is. */
export class DataProblem extends Error {
  override readonly name = 'DataProblem'
}

/** What `read` returns; undefined when it throws a {@link DataProblem}, which is noted. */
export function noting<T>(problems: string[], place: string, read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof DataProblem)) throw error
    problems.push(`${place}: ${error.message}`)
    return undefined
  }
}
