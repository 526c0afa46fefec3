import { access } from 'node:fs/promises'
import { extname } from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'

import { findColumns } from './columns.ts'
import { readCsvRows, separatorAdvice } from './csv-rows.ts'
import { invalidDataset } from './dataset-problems.ts'
import { withPlace, type DatasetRow } from './dataset-row.ts'
import { readJsonlRows } from './jsonl-rows.ts'
import { readParquetRows } from './parquet-rows.ts'
import { parseRow } from './parse-row.ts'
import { noting, type RawRow, type RowReader } from './raw-row.ts'

const readers: Readonly<Record<string, RowReader>> = {
  '.jsonl': readJsonlRows,
  '.ndjson': readJsonlRows,
  '.csv': readCsvRows,
  '.parquet': readParquetRows,
}

/**
 * Reads a dataset in JSON Lines (`.jsonl`, `.ndjson`: one object per line), CSV (`.csv`: commas, a
 * header row, UTF-8) or Parquet (`.parquet`: needs `hyparquet` and `hyparquet-compressors`
 * installed). The same data gives the same rows, whatever the format.
 *
 * Columns are `system_prompt`, `user_prompt`, `ground_truth` (or `label`) and `metadata` (an object,
 * or its JSON text), in any case; all others go to `otherColumns`. Without a `metadata` column every
 * row needs a user prompt and a ground truth.
 *
 * Numbers in text columns keep their digits exactly. In metadata and other columns they are
 * JavaScript numbers, but integers beyond 2^53 become text. Dates become ISO text.
 *
 * @throws OsmosisError with code `invalid_dataset`, naming up to five bad lines or rows
 */
export async function readDataset(
  file: string,
  options: {
    /** What such integers become; default: `text`. */
    readonly largeIntegers?: 'text' | 'bigint'
  } = {},
): Promise<DatasetRow[]> {
  const { largeIntegers = 'text' } = options
  const problems: string[] = []
  const rawRows = await readRawRows(file, problems)
  if (rawRows.length === 0 && problems.length === 0) problems.push('contains no rows')
  const isCsv = readerOf(file) === readCsvRows
  const columns = findColumns(rawRows, problems, isCsv ? separatorAdvice : () => '')
  if (problems.length > 0) throw invalidDataset(file, problems)

  const rows: DatasetRow[] = []
  for (const [index, rawRow] of rawRows.entries()) {
    const row = noting(problems, rawRow.place, () =>
      parseRow(rawRow, index, { columns, largeIntegers }),
    )
    if (row) rows.push(withPlace(row, rawRow.place))
  }
  if (problems.length > 0) throw invalidDataset(file, problems)
  return rows
}

async function readRawRows(file: string, problems: string[]): Promise<RawRow[]> {
  const read = readerOf(file)
  try {
    await access(file)
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT'
    throw cannotRead(file, isMissing ? 'there is no such file' : errorMessage(cause), cause)
  }
  try {
    return await read(file, problems)
  } catch (cause) {
    throw cannotRead(file, errorMessage(cause), cause)
  }
}

function readerOf(file: string): RowReader {
  const extension = extname(file).toLowerCase()
  const reader = readers[extension]
  if (reader) return reader
  const advice =
    extension === '.json'
      ? 'Write it as JSON Lines, one object per line.'
      : 'Convert it to one of these formats.'
  const got = extension === '' ? 'no extension' : `"${extension}"`
  throw new OsmosisError(
    'invalid_dataset',
    `Cannot read ${file}: datasets are .jsonl (or .ndjson), .csv or .parquet files, got ${got}. ${advice}`,
  )
}

function cannotRead(file: string, reason: string, cause: unknown): OsmosisError {
  return new OsmosisError('invalid_dataset', `Cannot read the dataset ${file}: ${reason}`, {
    cause,
  })
}
