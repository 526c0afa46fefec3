import { OsmosisError } from '@osmosis/core'

import { placeOf, type DatasetRow } from './dataset-row.ts'

const shownProblems = 5
const rowsAtOnce = 500

/** Checks rows by schemas and returns the problems of each. The schemas are in another process. */
export type RowCheck = (
  rows: readonly Pick<DatasetRow, 'metadata' | 'label'>[],
) => Promise<readonly (readonly string[])[]>

/** The problems of rows by the schemas of an entrypoint, one line for each row. Stops after the first five. */
export async function findRowProblems(
  rows: readonly DatasetRow[],
  check: RowCheck,
): Promise<string[]> {
  const problems: string[] = []
  for (let at = 0; at < rows.length && problems.length <= shownProblems; at += rowsAtOnce) {
    const some = rows.slice(at, at + rowsAtOnce)
    const found = await check(some.map(({ metadata, label }) => ({ metadata, label })))
    for (const [index, row] of some.entries()) {
      const own = found[index] ?? []
      if (own.length > 0) problems.push(`${placeOf(row)}: ${own.join('; ')}`)
    }
  }
  return problems
}

/**
 * Checks rows by the schemas of an entrypoint before anything runs.
 *
 * @param file - the dataset, for the message
 * @param check - undefined when the entrypoint declares no schema
 * @throws OsmosisError with code `invalid_dataset` that names the first rows that do not fit
 */
export async function assertRowsFit(
  file: string,
  rows: readonly DatasetRow[],
  check: RowCheck | undefined,
): Promise<void> {
  const problems = check === undefined ? [] : await findRowProblems(rows, check)
  if (problems.length > 0) throw invalidDataset(file, problems)
}

/** The error of a dataset that cannot be used, with up to five of its problems. */
export function invalidDataset(file: string, problems: readonly string[]): OsmosisError {
  const lines = problems.slice(0, shownProblems).map((problem) => `- ${problem}`)
  if (problems.length > shownProblems) lines.push('... (showing first 5 errors)')
  return new OsmosisError('invalid_dataset', [`Invalid dataset ${file}:`, ...lines].join('\n'))
}
