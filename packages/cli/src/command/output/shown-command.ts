import { isRunByPackageManager } from '../environment.ts'
import { columnsOf, outputWidth, styled } from '../terminal-text.ts'

/** An `osmosis` command as it can be pasted into the shell of the user. */
export function osmosisCommand(...words: readonly string[]): string {
  return [program(), ...words.map(quoted)].join(' ')
}

/** A command as lines that fit the terminal: a longer one is continued after a backslash. */
export function commandLines(words: readonly string[]): string[] {
  return continued([program(), ...words.map(quoted)]).map((line) => styled('cyan', line))
}

/** The words of a command as lines with a margin; all but the last end with a backslash. */
export function continued([name = '', ...words]: readonly string[]): string[] {
  const width = outputWidth()
  const whole = `  ${[name, ...words].join(' ')}`
  if (columnsOf(whole) <= width) return [whole]
  const lines: string[] = []
  let line = `  ${name}`
  for (const word of words) {
    if (columnsOf(`${line} ${word} \\`) <= width) line += ` ${word}`
    else {
      lines.push(`${line} \\`)
      line = `    ${word}`
    }
  }
  return [...lines, line]
}

/** A command after a text if both fit on a line, else below it. */
export function withCommand(text: string, words: readonly string[]): string[] {
  const command = osmosisCommand(...words)
  const columns = columnsOf(`${text} ${command}`)
  if (columns <= outputWidth()) return [`${text} ${styled('cyan', command)}`]
  return [text.trimEnd(), ...commandLines(words)]
}

function program(): string {
  return isRunByPackageManager() ? 'npx osmosis' : 'osmosis'
}

/** A word, quoted for a shell if necessary. */
export function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word
  return `'${word.replaceAll("'", String.raw`'\''`)}'`
}
