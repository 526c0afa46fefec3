/** Decorates a piece of the report. `styleText` of `node:util` is one. */
export type ReportStyle = (
  format: 'bold' | 'dim' | 'green' | 'yellow' | 'red',
  text: string,
) => string

/** The text on one line, cut with an ellipsis where it would be wider. */
export function cutToWidth(text: string, width: number): string {
  // By code points, so that no character is cut in half.
  const characters = Array.from(plain(text))
  return characters.length > width
    ? `${characters.slice(0, width - 1).join('')}…`
    : characters.join('')
}

/** The text in lines of whole words; a word that is wider has a line to itself. */
export function wrapToWidth(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of plain(text).split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = ''
    }
    line += line === '' ? word : ` ${word}`
  }
  return [...lines, line]
}

/** Errors carry line feeds, and sometimes sequences that a terminal would obey. */
function plain(text: string): string {
  return text.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim()
}

/**
 * Lines of a table whose columns are as wide as they have to be, two spaces apart. Columns hold
 * text on the left; those of `rightFrom` and later hold figures, on the right.
 */
export function tableLines(
  rows: readonly (readonly string[])[],
  rightFrom: number,
  style: ReportStyle,
): string[] {
  const columns = Math.max(...rows.map((row) => row.length))
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => widthOf(row[column] ?? ''))),
  )
  const [head = '', ...lines] = rows.map((row) =>
    widths
      .map((width, column) => {
        const cell = row[column] ?? ''
        const space = ' '.repeat(width - widthOf(cell))
        return column < rightFrom ? cell + space : space + cell
      })
      .join('  ')
      .trimEnd(),
  )
  return [style('bold', head), ...lines]
}

// By code points: names may hold characters beyond the first plane.
function widthOf(text: string): number {
  return Array.from(text).length
}
