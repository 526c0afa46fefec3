import type { RawRow } from './raw-row.ts'

const meanings = ['system_prompt', 'user_prompt', 'ground_truth', 'label', 'metadata'] as const

/** What a column can mean; also the name that says so, in any case and with spaces around it. */
export type ColumnMeaning = (typeof meanings)[number]

/** The columns that mean something, by their names as written. */
export type DatasetColumns = ReadonlyMap<ColumnMeaning, string>

/** What is wrong with the names that a file gives its columns. */
export function nameProblems(names: readonly string[]): string[] {
  return names.flatMap((name, index) => {
    if (name.trim() === '') return [`column ${index + 1} has no name; give it one or remove it`]
    if (names.indexOf(name) === index) return []
    return [`there are two columns ${JSON.stringify(name)}; rename or remove one of them`]
  })
}

/**
 * Finds the columns over all rows; two that mean the same become a problem, and so do missing ones,
 * with what `advise` has to say about these names.
 */
export function findColumns(
  rows: readonly RawRow[],
  problems: string[],
  advise: (names: readonly string[]) => string,
): DatasetColumns {
  const names = new Set<string>()
  for (const { cells } of rows) for (const name in cells) names.add(name)
  const columns = new Map<ColumnMeaning, string>()
  for (const name of names) {
    const meaning = meanings.find((candidate) => candidate === name.trim().toLowerCase())
    if (meaning === undefined) continue
    const other = columns.get(meaning)
    if (other === undefined) columns.set(meaning, name)
    else problems.push(`columns "${other}" and "${name}" both mean ${meaning}; keep one of them`)
  }
  if (problems.length === 0) problems.push(...missingColumns(columns, [...names], advise))
  return columns
}

function missingColumns(
  columns: DatasetColumns,
  names: readonly string[],
  advise: (names: readonly string[]) => string,
): string[] {
  if (columns.has('metadata')) return []
  const missing = [
    ...(columns.has('user_prompt') ? [] : ['user_prompt']),
    ...(columns.has('ground_truth') || columns.has('label') ? [] : ['ground_truth']),
  ]
  if (missing.length === 0) return []
  const found = names.map((name) => JSON.stringify(name)).join(', ')
  const advice = advise(names)
  return [
    `missing required columns: ${missing.join(', ')}. Datasets without a metadata column must include user_prompt and ground_truth (label is accepted as an alias). Found: ${found || 'none'}.${advice && ` ${advice}`}`,
  ]
}
