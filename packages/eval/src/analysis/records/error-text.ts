/** Whether an error message of a rollout server reports what user code threw. */
export function isThrown(message: string): boolean {
  return message.startsWith('thrown by ')
}

/** Where user code threw, e.g. `thrown by run() at main.ts:17`; undefined when unknown. */
export function thrownAt(message: string): string | undefined {
  return /^thrown by [^:\n]+ at [^\n]+?:\d+(?=: )/.exec(message)?.[0]
}

/**
 * The beginning and the end of an error message that is too long. Some quote a whole answer or page, and
 * thousands of rollouts may fail the same way.
 *
 * @param limit - characters that remain, besides the line that reports the omission
 */
export function shortenedError(error: string, limit: number): string {
  const cut = error.length - limit
  if (cut <= 0) return error
  const head = Math.ceil((3 * limit) / 4)
  return `${error.slice(0, head)}\n… ${cut} of ${error.length} characters omitted …\n${error.slice(head - limit)}`
}
