import type { RunTable } from '../table/run-table.ts'

type Read = (table: RunTable, item: number) => number | null | undefined

const readers = {
  reward: (table, item) => table.value(item),
  row: ({ document: { columns } }, item) => columns.row[item],
  // Counted from 1, as people read it.
  attempt: ({ document: { columns } }, item) => (columns.attempt[item] ?? 0) + 1,
  turns: ({ document: { columns } }, item) => columns.calls[item],
  tools: ({ document: { columns } }, item) => columns.toolCalls[item],
  errors: ({ document: { columns } }, item) => columns.toolErrors[item],
  tokens: ({ document: { columns } }, item) => columns.completionTokens[item],
  prompt: ({ document: { columns } }, item) => columns.promptTokens[item],
  seconds: ({ document: { columns } }, item) => (columns.durationMs[item] ?? 0) / 1000,
  cost: ({ document: { columns } }, item) => columns.costUsd[item],
  spread: (table, item) => table.group(item).spread,
  ended: ({ document: { columns } }, item) => columns.endedSeconds[item],
} satisfies Record<string, Read>

/** Numbers by which the items of every run can be filtered and sorted. */
export const numberKeys = Object.keys(readers)

/** Reads a number of items; undefined for an unknown name. NaN for an item without the number. */
export function numberReader(key: string, table: RunTable): ((item: number) => number) | undefined {
  const { metrics, scores } = table.document.columns
  const reader: Read | undefined = Object.hasOwn(readers, key)
    ? readers[key as keyof typeof readers]
    : (columnReader(metrics, key) ?? columnReader(scores, key))
  return reader === undefined ? undefined : (item) => reader(table, item) ?? Number.NaN
}

/** Metric names may have capitals; keys of a query are in lower case. */
function columnReader(
  columns: Readonly<Record<string, readonly (number | null)[]>>,
  key: string,
): Read | undefined {
  const column = Object.entries(columns).find(
    ([name]) => name.toLowerCase() === key.toLowerCase(),
  )?.[1]
  return column === undefined ? undefined : (_table, item) => column[item]
}

/** A number as people write it, e.g. `1,000`; NaN for any other text. */
function toNumber(text: string): number {
  const plain = /^-?\d{1,3}(?:,\d{3})+(?:\.\d+)?$/.test(text) ? text.replaceAll(',', '') : text
  return plain === '' ? Number.NaN : Number(plain)
}

/** Parses e.g. `<0.5`, `:3` and `:3-5`; null when the text is not a number. */
export function numberTest(operator: string, text: string): ((value: number) => boolean) | null {
  const [, from, to] = /^(-?[\d.,]+)-(-?[\d.,]+)$/.exec(text) ?? []
  if (from !== undefined && to !== undefined && operator === ':') {
    const [low, high] = [toNumber(from), toNumber(to)]
    return isNaN(low) || isNaN(high) ? null : (value) => value >= low && value <= high
  }
  const limit = toNumber(text)
  if (isNaN(limit)) return null
  if (operator === '<') return (value) => value < limit
  if (operator === '<=') return (value) => value <= limit
  if (operator === '>') return (value) => value > limit
  if (operator === '>=') return (value) => value >= limit
  return (value) => value === limit
}
