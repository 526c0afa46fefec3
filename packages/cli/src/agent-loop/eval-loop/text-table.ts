/**
 * Lines of a table whose columns are as wide as they have to be, two spaces apart. Columns hold
 * text on the left; those of `rightFrom` and later hold figures, on the right.
 */
export function tableLines(rows: readonly (readonly string[])[], rightFrom: number): string[] {
  const columns = Math.max(...rows.map((row) => row.length))
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => widthOf(row[column] ?? ''))),
  )
  return rows.map((row) =>
    widths
      .map((width, column) => {
        const cell = row[column] ?? ''
        const space = ' '.repeat(width - widthOf(cell))
        return column < rightFrom ? cell + space : space + cell
      })
      .join('  ')
      .trimEnd(),
  )
}

// By code points: names may hold characters beyond the first plane.
function widthOf(text: string): number {
  return Array.from(text).length
}
