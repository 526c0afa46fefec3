/**
 * The beginning and the end of an error that is too long: what it says first, and how its trace ends.
 * Some quote a whole answer or page, and thousands of rollouts fail alike.
 *
 * @param most - characters that are kept, besides the line that says how many are not
 */
export function shortenedError(error: string, most: number): string {
  const cut = error.length - most
  if (cut <= 0) return error
  const head = Math.ceil((3 * most) / 4)
  return `${error.slice(0, head)}\n… ${cut} of ${error.length} characters are left out …\n${error.slice(head - most)}`
}
