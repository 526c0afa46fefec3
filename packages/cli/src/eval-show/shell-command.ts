import { isRunByPackageManager } from '../environment.ts'

/** A command of ours as it can be pasted into the shell that this one was typed into. */
export function osmosisCommand(...words: readonly string[]): string {
  const command = isRunByPackageManager() ? 'npx osmosis' : 'osmosis'
  return `${command} ${words.map(quoted).join(' ')}`
}

/** A word as shells take it. */
export function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word
  return `'${word.replaceAll("'", String.raw`'\''`)}'`
}
