import { onOneLine, type Cell } from '../../command/terminal-text.ts'

/** A text on one line, of which Markdown shows every character. */
export function markdownText(cell: Cell | string): string {
  const text = onOneLine(typeof cell === 'string' ? cell : cell.text)
  return text.replaceAll(/[\\|`*_<>[\]]/g, String.raw`\$&`)
}

/**
 * The lines of a table. The cells of `head` are Markdown.
 *
 * @param right - the columns that are aligned right. Default: all but the first
 */
export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly (Cell | string)[])[],
  right: readonly number[] = [...head.keys()].slice(1),
): string[] {
  return [
    `| ${head.join(' | ')} |`,
    `| ${head.map((_, at) => (right.includes(at) ? '---:' : '---')).join(' | ')} |`,
    ...rows.map((row) => `| ${row.map((cell) => markdownText(cell)).join(' | ')} |`),
  ]
}
