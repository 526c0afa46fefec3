import { oneLine } from '../../command/surroundings.ts'
import { onOneLine, type Cell } from '../../command/terminal-text.ts'

/** A text on one line, of which Markdown shows every character. */
export function markdownText(cell: Cell | string): string {
  const text = onOneLine(typeof cell === 'string' ? cell : cell.text)
  return text.replaceAll(/[\\|`*_<>[\]]/g, String.raw`\$&`)
}

/** What a model or a tool said, as code: there GitHub neither notifies whom it mentions nor shows its HTML. */
export function markdownCode(text: string): string {
  const line = oneLine(onOneLine(text))
  const longest = Math.max(0, ...[...line.matchAll(/`+/g)].map(([run]) => run.length))
  const fence = '`'.repeat(longest + 1)
  return longest === 0 ? `${fence}${line}${fence}` : `${fence} ${line} ${fence}`
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
