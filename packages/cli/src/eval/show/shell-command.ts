import { stripVTControlCharacters } from 'node:util'

import { columnsOf, outputWidth, styled } from '../../command/terminal-text.ts'
import { isRunByPackageManager } from '../../inputs/environment.ts'

/** A command of ours as it can be pasted into the shell that this one was typed into. */
function osmosisCommand(...words: readonly string[]): string {
  return [program(), ...words.map(quoted)].join(' ')
}

/** Such a command as lines that fit: a longer one continues behind a backslash, as shells take it. */
export function commandLines(words: readonly string[], indent = 2): string[] {
  const width = outputWidth()
  const margin = ' '.repeat(indent)
  const whole = `${margin}${osmosisCommand(...words)}`
  if (columnsOf(whole) <= width) return [styled('cyan', whole)]
  const lines: string[] = []
  let line = `${margin}${program()}`
  for (const word of words.map(quoted)) {
    if (columnsOf(`${line} ${word} \\`) <= width) line += ` ${word}`
    else {
      lines.push(`${line} \\`)
      line = `${margin}  ${word}`
    }
  }
  return [...lines, line].map((part) => styled('cyan', part))
}

/** A command behind a text where both fit a line, else below it. */
export function withCommand(text: string, words: readonly string[]): string[] {
  const command = osmosisCommand(...words)
  const columns = columnsOf(`${stripVTControlCharacters(text)} ${command}`)
  if (columns <= outputWidth()) return [`${text} ${styled('cyan', command)}`]
  return [text.trimEnd(), ...commandLines(words)]
}

function program(): string {
  return isRunByPackageManager() ? 'npx osmosis' : 'osmosis'
}

/** A word as shells take it. */
export function quoted(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word
  return `'${word.replaceAll("'", String.raw`'\''`)}'`
}
