import { stripVTControlCharacters, styleText } from 'node:util'

import {
  environment,
  type OutputStream,
  printError,
  showsColours,
  standardError,
  standardOutput,
} from './command-context.ts'

/** A text in a format such as `red` or `['bold', 'red']`; plain when the output has no colours. */
export function styled(format: Parameters<typeof styleText>[0], text: string): string {
  if (!showsColours(standardOutput())) return text
  return styleText(format, text, { validateStream: false })
}

/** Columns of an output, by default of stdout: COLUMNS, else those of the terminal; unlimited where there is none. */
export function outputWidth(output: OutputStream = standardOutput()): number {
  const columns = Number(environment()['COLUMNS'])
  if (Number.isInteger(columns) && columns > 0) return Math.max(40, columns)
  const { isTTY, columns: own = 80 } = output
  return isTTY === true ? Math.max(40, own) : Infinity
}

/**
 * Untrusted text without characters that control a terminal: escape sequences, control characters and marks
 * of the text direction. Line feeds stay, tabs become spaces.
 */
export function plain(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll(/\r\n?|[\u2028\u2029]/g, '\n')
    .replaceAll('\t', '    ')
    .replaceAll(/[^\P{Cc}\n]|[^\P{Cf}\u200C\u200D]/gu, '')
    .toWellFormed()
}

/** The same on one line. */
export function onOneLine(text: string): string {
  return plain(text).replaceAll(/\s+/g, ' ').trim()
}

/** Columns, with the ellipsis of a line that was cut. */
const longestLine = 201

/** The same, cut when it is longer than {@link longestLine}, whatever width the output has. */
export function shortLine(text: string): string {
  return cutTo(onOneLine(text), longestLine)
}

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
const wide =
  /^(?:\p{Emoji_Presentation}|.\uFE0F|[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]|[\u{20000}-\u{3FFFD}])/u

/** How many columns a text takes, with or without styles. */
export function columnsOf(text: string): number {
  if (/^[\u0020-\u007E]*$/.test(text)) return text.length
  let columns = 0
  for (const { segment } of graphemes.segment(stripVTControlCharacters(text)))
    columns += columnsOfGrapheme(segment)
  return columns
}

function columnsOfGrapheme(grapheme: string): number {
  if (wide.test(grapheme)) return 2
  return /^[\p{M}\u200C\u200D]/u.test(grapheme) ? 0 : 1
}

/** The text, cut with an ellipsis where it would be wider. */
function cutTo(text: string, width: number): string {
  if (columnsOf(text) <= width) return text
  let cut = ''
  let columns = 0
  for (const { segment } of graphemes.segment(text)) {
    columns += columnsOfGrapheme(segment)
    if (columns > width - 1) break
    cut += segment
  }
  return `${cut}…`
}

/**
 * The lines of a text, each wrapped at words. Indents stay, also in front of what is wrapped. Words that
 * are wider, such as paths and URLs, are left to the terminal, so that they can be copied.
 */
export function wrapped(text: string, width: number): string[] {
  return plain(text)
    .split('\n')
    .flatMap((line) => wrapLine(line.trimEnd(), width))
}

/**
 * Parts in as few lines as hold them, with `separator` between two of a line: a part is only broken
 * where it is wider than a line.
 */
export function packed(parts: readonly string[], separator: string, width: number): string[] {
  const lines: string[] = []
  for (const part of parts) {
    const last = lines.at(-1)
    const joined = `${last ?? ''}${separator}${part}`
    if (last !== undefined && columnsOf(joined) <= width) lines[lines.length - 1] = joined
    else lines.push(...(columnsOf(part) <= width ? [part] : wrapped(part, width)))
  }
  return lines
}

function wrapLine(line: string, width: number): string[] {
  if (columnsOf(line) <= width) return [line]
  const [indent = ''] = /^ */.exec(line) ?? []
  const lead = indent.length < width / 2 ? indent : ''
  const lines: string[] = []
  let current = lead
  let columns = lead.length
  // A line may also end between ideographs, but not in front of a %.
  for (const [piece] of line
    .slice(indent.length)
    .matchAll(/[\u3041-\u9FFF\uAC00-\uD7A3]|[^\s\u3041-\u9FFF\uAC00-\uD7A3]+(?: %\S*)?\s*|\s+/gu)) {
    const room = columnsOf(piece.trimEnd())
    if (columns > lead.length && columns + room > width) {
      lines.push(current.trimEnd())
      current = lead
      columns = lead.length
    }
    current += piece
    columns += columnsOf(piece)
  }
  return [...lines, current.trimEnd()]
}

/** Prints sentences to stderr, wrapped at words where its terminal ends. They have no styles. */
export function printMessage(text: string): void {
  printError(`${wrapped(text, outputWidth(standardError())).join('\n')}\n`)
}

/** A cell of a table: its text, and how it looks. */
export interface Cell {
  readonly text: string
  readonly format?: Parameters<typeof styleText>[0]
}

/**
 * Lines of a table with columns as wide as their widest cell, two spaces apart. The columns in `right` are
 * aligned right. The last column gets the remaining width.
 */
export function tableLines(
  rows: readonly (readonly (Cell | string)[])[],
  { right = [], width = Infinity }: { right?: readonly number[]; width?: number } = {},
): string[] {
  const cells = rows.map((row) =>
    row.map((cell) => (typeof cell === 'string' ? { text: cell } : cell)),
  )
  const count = Math.max(0, ...cells.map((row) => row.length))
  const widths = Array.from({ length: count }, (_, column) =>
    cells.reduce((most, row) => Math.max(most, columnsOf(row[column]?.text ?? '')), 0),
  )
  const before = widths.slice(0, -1).reduce((sum, one) => sum + (one === 0 ? 0 : one + 2), 0)
  const last = Math.max(12, width - before)
  return cells.map((row) => {
    const texts = row.map(({ text, format }, column) => {
      const isLast = column === count - 1
      const shown = isLast ? cutTo(text, last) : text
      const room = Math.min(widths[column] ?? 0, isLast ? last : Infinity)
      const space = ' '.repeat(Math.max(0, room - columnsOf(shown)))
      const look = format === undefined || shown === '' ? shown : styled(format, shown)
      if (right.includes(column)) return space + look
      return column === row.length - 1 ? look : look + space
    })
    // Empty columns are omitted.
    const shown = texts.filter((_, column) => widths[column] !== 0)
    return shown.join('  ').trimEnd()
  })
}
