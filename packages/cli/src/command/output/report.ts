import { printOut } from '../command-context.ts'
import {
  type Cell,
  columnsOf,
  onOneLine,
  outputWidth,
  packed,
  plain,
  styled,
  tableLines,
  wrapped,
} from '../terminal-text.ts'
import { commandLines, quoted, withCommand } from './shown-command.ts'

/** What a command has to say, without its form; `--json` prints the documents of the analysis instead. */
export type Report = readonly Section[]

/** Blocks that belong together; what is undefined or empty is not shown. */
export type Section = readonly (Block | undefined)[]

/** A text of its own is a paragraph. */
export type Block = Text | Facts | Message | Table | Command

/**
 * A text, or pieces of it that look different. It may come from anyone, such as a policy: the functions that print a report
 * clean it, and nobody before them.
 */
export type Text = string | Cell | readonly (string | Cell)[]

/** Texts in as few lines as hold them: one is only broken where it is wider than a line. */
export interface Facts {
  readonly facts: readonly Text[]
  /** Default: ` · `. */
  readonly separator?: Cell | string
  /** In front of the first line. The others begin below its end. */
  readonly head?: Text
  /** Whether what does not fit on the first line is left out. */
  readonly isBrief?: boolean
}

/** A text whose line feeds and indents count, such as an error. */
interface Message {
  readonly message: string
  readonly format?: Cell['format']
  /** In front of the text where both fit on one line, else above it. Default: the text is indented. */
  readonly label?: string
}

/** Rows below a head, which may be empty; without rows nothing is shown. */
export interface Table {
  readonly table: readonly (readonly (Cell | string)[])[]
  readonly head: readonly string[]
  /** Columns that are aligned right. Default: none. */
  readonly right?: readonly number[]
  /** Whether the last column is cut where the table is too wide. */
  readonly cutsLast?: boolean
  /** Columns that are left out in this order until the table fits. */
  readonly lessImportant?: readonly number[]
  /** Shown where the table does not fit. */
  readonly narrow?: Section
}

/** A command that can be pasted into the shell of the user. */
export interface Command {
  /** The arguments of `osmosis`. */
  readonly command: readonly string[]
  /** On the same line if both fit. */
  readonly label?: Cell | string
  /** Where the command has to be called, if not here. */
  readonly folder?: string | undefined
}

/** A text in a format. */
export function look(text: string, format: NonNullable<Cell['format']>): Cell {
  return { text, format }
}

/** The title of a section. */
export function heading(text: string): Cell {
  return { text, format: 'bold' }
}

export function dim(text: string): Cell {
  return { text, format: 'dim' }
}

/** A text that belongs to the one above it. */
export function indented(text: Text): Facts {
  return { facts: [text], head: '  ' }
}

/** A command at the end of a report, behind a label as wide as the longest of them. */
export function nextCommand(label: string, command: readonly string[], folder?: string): Command {
  return { command, label: nextLabel(label), folder }
}

export function nextLabel(label: string): Cell {
  return dim(`${label.padEnd('In the browser'.length)} `)
}

/** Prints a report to stdout. */
export function printReport(report: Report): void {
  printOut(`${reportText(report)}\n`)
}

/** A report for the terminal, without a line feed at the end. */
export function reportText(report: Report, width = outputWidth()): string {
  return joined(report, (block) => blockLines(block, width))
}

/** A report as Markdown, which shows every character of its texts. It has no form for other blocks. */
export function reportMarkdown(report: readonly (readonly (Text | Table | undefined)[])[]): string {
  return joined(report, markdownLines)
}

function joined<B>(
  report: readonly (readonly (B | undefined)[])[],
  linesOf: (block: B) => string[],
): string {
  const sections = report.map((section) =>
    section.flatMap((block) => (block === undefined ? [] : linesOf(block))).join('\n'),
  )
  return sections.filter((section) => section !== '').join('\n\n')
}

function blockLines(block: Block, width: number): string[] {
  if (isText(block)) return textLines(block, width)
  if ('facts' in block) return factLines(block, width)
  if ('message' in block) return messageLines(block, width)
  if ('table' in block) return fittingTable(block, width)
  const { command, label = '', folder } = block
  const head = drawn(label)
  if (folder === undefined) return head === '' ? commandLines(command) : withCommand(head, command)
  return [`${head} ${styled('cyan', `cd ${quoted(folder)} &&`)}`, ...commandLines(command)]
}

function isText(block: Block): block is Text {
  return typeof block === 'string' || Array.isArray(block) || 'text' in block
}

/** A text that has to be broken keeps its look if it has one only. */
function textLines(text: Text, width: number): string[] {
  const [only, ...others] = piecesOf(text)
  const line = drawn(text)
  if (columnsOf(line) <= width) return [line]
  if (only === undefined || others.length > 0) return wrapped(line, width)
  return wrapped(only.text, width).map((each) => drawn({ ...only, text: each }))
}

/** A head may be this wide beside its text. Columns. */
const widestHead = 24

function factLines(
  { facts, separator = ' · ', head = '', isBrief = false }: Facts,
  width: number,
): string[] {
  const title = drawn(head)
  if (facts.length === 0 && title.trim() === '') return []
  const indent = Math.min(columnsOf(title), widestHead)
  const room = width - indent
  const lines = packed(
    facts.flatMap((fact) => textLines(fact, room)),
    drawn(separator),
    room,
  )
  const [first = '', ...more] = columnsOf(title) > indent ? ['', ...lines] : lines
  const below = isBrief ? [] : more.map((line) => ' '.repeat(indent) + line)
  return [title + first, ...below].map((line) => line.trimEnd())
}

function messageLines({ message, format, label }: Message, width: number): string[] {
  const text = plain(message).trim()
  const colour = (line: string): string =>
    format === undefined || line === '' ? line : styled(format, line)
  const title =
    label === undefined || label === '' ? '' : `${styled(format ?? 'dim', plain(label))}  `
  const [only = '', ...others] = wrapped(text, width - 2)
  if (label !== undefined && others.length === 0 && columnsOf(title + only) <= width)
    return [title + colour(only)]
  return [
    ...(title === '' ? [] : [title.trimEnd()]),
    ...[only, ...others].map((line) => `  ${colour(line)}`.trimEnd()),
  ]
}

/** The table without what it has no room for, else what is shown instead. */
function fittingTable(block: Table, width: number): string[] {
  const { table, head, right = [], cutsLast = false, lessImportant = [], narrow } = block
  if (table.length === 0) return []
  let rows = [...(head.length === 0 ? [] : [head.map(dim)]), ...table.map((row) => row.map(clean))]
  const draw = (): string[] => tableLines(rows, { right, ...(cutsLast && { width }) })
  const fits = (): boolean => draw().every((line) => columnsOf(line) <= width)
  for (const column of lessImportant) {
    if (fits()) break
    // Columns without texts are left out.
    rows = rows.map((row) => row.with(column, { text: '' }))
  }
  return narrow === undefined || fits() ? draw() : [reportText([narrow], width)]
}

/** The pieces of a text on one line, without what controls a terminal. */
function piecesOf(text: Text): Cell[] {
  return [text].flat().map((piece) => {
    const cell = typeof piece === 'string' ? { text: piece } : piece
    return { ...cell, text: plain(cell.text).replaceAll(/\s*\n\s*/g, ' ') }
  })
}

function clean(cell: Cell | string): Cell {
  return typeof cell === 'string'
    ? { text: onOneLine(cell) }
    : { ...cell, text: onOneLine(cell.text) }
}

function drawn(text: Text): string {
  return piecesOf(text)
    .map((piece) =>
      piece.format === undefined || piece.text === ''
        ? piece.text
        : styled(piece.format, piece.text),
    )
    .join('')
}

function markdownLines(block: Text | Table): string[] {
  if (isText(block)) return [piecesOf(block).map(markdownText).join('')]
  const { head, table, right = [] } = block
  if (table.length === 0) return []
  return [
    head.map((title) => markdownText({ text: title })),
    head.map((_, at) => (right.includes(at) ? '---:' : '---')),
    ...table.map((row) => row.map((cell) => markdownText({ text: clean(cell).text }))),
  ].map((cells) => `| ${cells.join(' | ')} |`)
}

function markdownText({ text, format }: Cell): string {
  const escaped = text.replaceAll(/[\\|`*_<>[\]]/g, String.raw`\$&`)
  return format === 'bold' ? `**${escaped}**` : escaped
}
