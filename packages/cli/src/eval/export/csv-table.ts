import type { ItemEvent, RunTable } from '@osmosis/eval/analysis'

type Cell = string | number | boolean | null

/** The table of rollouts as lines of CSV, the head first: RFC 4180, with CRLF behind each line. */
export function* csvLines(events: readonly ItemEvent[], table: RunTable): Generator<string> {
  const columns = columnsOf(events, table)
  yield toLine(columns.map(([head]) => head))
  for (const event of events) {
    const item = table.find(event.source_row_index, event.run_index) ?? 0
    yield toLine(columns.map(([, read]) => read(event, item)))
  }
}

type Column = readonly [head: string, read: (event: ItemEvent, item: number) => Cell]

function columnsOf(events: readonly ItemEvent[], table: RunTable): Column[] {
  const facets = Object.keys(table.document.rows.facets).toSorted()
  const scores = namesIn(events.map((event) => event.scores))
  const metrics = namesIn(events.map((event) => event.metrics))
  return [
    ['row', (event) => event.source_row_index],
    ['attempt', (event) => event.run_index + 1],
    ['row_key', (event) => event.row_key],
    ['rollout_id', (event) => event.rollout_id],
    ['model', () => table.document.model],
    ['status', (event) => event.status],
    ['passed', (_event, item) => table.passed(item)],
    ['reward', (event) => event.reward],
    ...scores.map((name): Column => [`score.${name}`, (event) => event.scores?.[name] ?? null]),
    ...metrics.map((name): Column => [`metric.${name}`, (event) => event.metrics[name] ?? null]),
    ...facets.map((name): Column => [
      `facet.${name}`,
      (_event, item) => table.facets(table.group(item))[name] ?? null,
    ]),
    ['error_type', (event) => event.error_type],
    ['error_message', (event) => event.error_message],
    ['calls', (event) => event.calls],
    ['tool_calls', (event) => event.tool_calls],
    ['tool_errors', (event) => event.tool_errors],
    ['tools', (event) => event.tools.map(({ name }) => name).join(' ')],
    ['finish', (event) => Object.keys(event.finish).join(' ')],
    ['rewritten', (event) => event.rewritten],
    ['prompt_tokens', (event) => event.prompt_tokens],
    ['completion_tokens', (event) => event.completion_tokens],
    ['cost_usd', (event) => event.cost_usd],
    ['duration_ms', (event) => event.duration_ms],
    ['ended_at', (event) => event.ended_at],
    ['signs', (_event, item) => table.signs(item).join(' ')],
    ['tag', (_event, item) => table.note(item)?.tag ?? null],
    ['note', (_event, item) => table.note(item)?.text ?? null],
    ['summary', (event) => event.summary],
  ]
}

function namesIn(of: readonly (Readonly<Record<string, unknown>> | undefined)[]): string[] {
  return [...new Set(of.flatMap((values) => Object.keys(values ?? {})))].toSorted()
}

function toLine(cells: readonly Cell[]): string {
  return `${cells.map(toCell).join(',')}\r\n`
}

function toCell(value: Cell): string {
  if (value === null) return ''
  const text = typeof value === 'string' ? guarded(value) : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/**
 * Spreadsheets run a text that begins like a formula, and models write what they like: an apostrophe in
 * front makes it a text. Numbers are none of those.
 */
function guarded(text: string): string {
  return /^[=+\-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20]/.test(text) ? `'${text}` : text
}
