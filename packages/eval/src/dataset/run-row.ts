import { createHash } from 'node:crypto'

import type { RunRow } from '../analysis/run-manifest.ts'
import type { DatasetRow } from './dataset-row.ts'

/** Longer texts are content, and not what rows are grouped by. */
const longestFacet = 64
const mostFacets = 12

/** What a run notes of a row. */
export function toRunRow(row: DatasetRow): RunRow {
  const facets = Object.entries({ ...row.otherColumns, ...row.metadata })
    .map(([name, value]) => [name, toFacet(value)] as const)
    .filter(([name, facet]) => facet !== '' && facet.length <= longestFacet && !isId(name))
    .slice(0, mostFacets)
  return {
    key: rowKey(row),
    source_row: row.sourceRowIndex,
    ...(facets.length === 0 ? {} : { facets: Object.fromEntries(facets) }),
  }
}

/** Empty for what rows are not grouped by, such as a measurement or a list. */
function toFacet(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'boolean' || Number.isSafeInteger(value) ? String(value) : ''
}

function rowKey({ otherColumns, initialMessages, label, metadata }: DatasetRow): string {
  const [, id] = Object.entries(otherColumns).find(([name]) => isId(name)) ?? []
  if ((typeof id === 'string' && id !== '') || typeof id === 'number') return String(id)
  const content = JSON.stringify([initialMessages, label, metadata])
  return createHash('sha256').update(content).digest('hex').slice(0, 16)
}

function isId(column: string): boolean {
  return column.trim().toLowerCase() === 'id'
}
