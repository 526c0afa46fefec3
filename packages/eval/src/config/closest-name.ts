/** The name that was probably meant by `word`; undefined when none is close. */
export function closestName(word: string, names: readonly string[]): string | undefined {
  // A third of the word may be wrong: more is another word.
  let best = Math.max(1, Math.floor(word.length / 3))
  let closest: string | undefined
  for (const name of names) {
    const distance = editDistance(word.toLowerCase(), name.toLowerCase())
    if (distance > best || (distance === best && closest !== undefined)) continue
    best = distance
    closest = name
  }
  return closest
}

/** How many letters to insert, delete or replace to get from one word to the other. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (const [index, letter] of Array.from(from).entries()) {
    const next = [index + 1]
    for (const [column, other] of Array.from(to).entries()) {
      const replaced = (row[column] ?? 0) + (letter === other ? 0 : 1)
      const deleted = (row[column + 1] ?? 0) + 1
      const inserted = (next[column] ?? 0) + 1
      next.push(Math.min(replaced, deleted, inserted))
    }
    row = next
  }
  return row.at(-1) ?? 0
}
