import { errorMessage } from '@osmosis/core'
import type { DecodedArray, ParquetRowRange, ParquetScan, SchemaTree } from 'hyparquet'

import { nameProblems } from './columns.ts'
import { openParquet } from './open-parquet.ts'
import { toCell } from './parquet-cells.ts'
import { takeDecimalScale, toDecimal } from './parquet-decimals.ts'
import { hasShortFloats, withMeantDigits } from './parquet-floats.ts'
import { noting, type RawRow } from './raw-row.ts'

interface ParquetColumn {
  readonly name: string
  /** For messages: `column "name"`. */
  readonly place: string
  readonly toCell: (value: unknown) => unknown
}

/** Reads Parquet, one row group after the other. */
export async function readParquetRows(file: string, problems: string[]): Promise<RawRow[]> {
  const { scan, schema } = await openParquet(file)
  const columns = planColumns(schema, problems)
  const rows: RawRow[] = []
  if (problems.length > 0) return rows
  for (const range of scan.ranges) {
    const values: DecodedArray[] = []
    for (const { name } of columns) values.push(await readColumn(scan, name, range))
    for (let row = range.rowStart; row < range.rowEnd; row += 1) {
      const place = `row ${row}`
      const cells = columns.map((column, index) => {
        const value: unknown = values[index]?.[row - range.rowStart]
        const cellPlace = `${place}: ${column.place}`
        return [column.name, noting(problems, cellPlace, () => column.toCell(value))] as const
      })
      rows.push({ place, cells: Object.fromEntries(cells) })
    }
  }
  return rows
}

function planColumns(schema: readonly SchemaTree[], problems: string[]): ParquetColumn[] {
  problems.push(...nameProblems(schema.map(({ element }) => element.name)))
  return schema.map((column) => {
    const { name } = column.element
    const place = `column ${JSON.stringify(name)}`
    const scale = noting(problems, place, () => takeDecimalScale(column))
    return { name, place, toCell: cellReader(column, scale) }
  })
}

function cellReader(column: SchemaTree, scale: number | undefined): ParquetColumn['toCell'] {
  if (scale !== undefined) return (value) => toDecimal(value, scale)
  return hasShortFloats(column) ? (value) => toCell(withMeantDigits(value, column)) : toCell
}

async function readColumn(
  scan: ParquetScan,
  column: string,
  range: ParquetRowRange,
): Promise<DecodedArray> {
  const expected = range.rowEnd - range.rowStart
  try {
    const values = await scan.readColumn({ column, ...range })
    if (values.length === expected) return values
    throw new Error(`expected ${expected} values, got ${values.length}`)
  } catch (cause) {
    const codec = codecOf(scan, column)
    const advice = codec.startsWith('LZ4')
      ? 'Write the file with zstd or snappy compression instead.'
      : 'The file is broken, or uses what is not supported; write it again.'
    throw new Error(
      `column ${JSON.stringify(column)}, compressed with ${codec}, cannot be decoded in rows ${range.rowStart} to ${range.rowEnd - 1} (${errorMessage(cause)}). ${advice}`,
      { cause },
    )
  }
}

function codecOf({ metadata }: ParquetScan, column: string): string {
  const chunks = metadata.row_groups.flatMap(({ columns }) => columns)
  const chunk = chunks.find(({ meta_data: data }) => data?.path_in_schema[0] === column)
  return chunk?.meta_data?.codec ?? 'an unknown codec'
}
