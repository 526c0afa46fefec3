import { isRunByPackageManager } from '../environment.ts'

/** A command of ours as it can be pasted into the shell that this one was typed into. */
export function osmosisCommand(...words: readonly string[]): string {
  return shellCommand(...(isRunByPackageManager() ? ['npx'] : []), 'osmosis', ...words)
}

/** Words as they can be pasted into a shell. */
export function shellCommand(...words: readonly string[]): string {
  return words.map(quoted).join(' ')
}

function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word
  return `'${word.replaceAll("'", String.raw`'\''`)}'`
}
