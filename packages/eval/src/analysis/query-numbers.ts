import type { RunTable } from './run-table.ts'

type Read = (item: number) => number | null | undefined

const readers = {
  reward: (table) => (item) => table.value(item),
  row:
    ({ document: { columns } }) =>
    (item) =>
      columns.row[item],
  // Counted from 1, as people read it.
  attempt:
    ({ document: { columns } }) =>
    (item) =>
      (columns.attempt[item] ?? 0) + 1,
  turns:
    ({ document: { columns } }) =>
    (item) =>
      columns.calls[item],
  tools:
    ({ document: { columns } }) =>
    (item) =>
      columns.toolCalls[item],
  errors:
    ({ document: { columns } }) =>
    (item) =>
      columns.toolErrors[item],
  tokens:
    ({ document: { columns } }) =>
    (item) =>
      columns.completionTokens[item],
  prompt:
    ({ document: { columns } }) =>
    (item) =>
      columns.promptTokens[item],
  seconds:
    ({ document: { columns } }) =>
    (item) =>
      (columns.durationMs[item] ?? 0) / 1000,
  cost:
    ({ document: { columns } }) =>
    (item) =>
      columns.costUsd[item],
  spread: (table) => (item) => table.group(item).spread,
  ended:
    ({ document: { columns } }) =>
    (item) =>
      columns.endedSeconds[item],
} satisfies Record<string, (table: RunTable) => Read>

/** Numbers of an item by which every run can be filtered and sorted. */
export const numberKeys = Object.keys(readers)

/** Reads a number of items; undefined where there is none of this name. NaN for an item without it. */
export function numberReader(key: string, table: RunTable): ((item: number) => number) | undefined {
  const { metrics, scores } = table.document.columns
  const reader: Read | undefined = Object.hasOwn(readers, key)
    ? readers[key as keyof typeof readers](table)
    : (columnReader(metrics, key) ?? columnReader(scores, key))
  return reader === undefined ? undefined : (item) => reader(item) ?? Number.NaN
}

export function isSortKey(key: string, table: RunTable): boolean {
  return numberReader(key, table) !== undefined
}

/** Names of users may have capitals; those of the query have none. */
function columnReader(
  columns: Readonly<Record<string, readonly (number | null)[]>>,
  key: string,
): Read | undefined {
  const column = Object.entries(columns).find(
    ([name]) => name.toLowerCase() === key.toLowerCase(),
  )?.[1]
  return column === undefined ? undefined : (item) => column[item]
}

/** Reads e.g. `<0.5`, `:3` and `:3-5`; null for no number. */
export function numberTest(operator: string, text: string): ((value: number) => boolean) | null {
  const [, from, to] = /^(-?[\d.]+)-(-?[\d.]+)$/.exec(text) ?? []
  if (from !== undefined && to !== undefined && operator === ':') {
    const [low, high] = [Number(from), Number(to)]
    return isNaN(low) || isNaN(high) ? null : (value) => value >= low && value <= high
  }
  const limit = text === '' ? Number.NaN : Number(text)
  if (isNaN(limit)) return null
  if (operator === '<') return (value) => value < limit
  if (operator === '<=') return (value) => value <= limit
  if (operator === '>') return (value) => value > limit
  if (operator === '>=') return (value) => value >= limit
  return (value) => value === limit
}
