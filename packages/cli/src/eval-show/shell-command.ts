/** A command as it can be pasted into a shell. */
export function shellCommand(...words: readonly string[]): string {
  return words.map(quoted).join(' ')
}

function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word
  return `'${word.replaceAll("'", String.raw`'\''`)}'`
}
