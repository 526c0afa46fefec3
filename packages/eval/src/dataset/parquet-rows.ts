import { errorMessage } from '@osmosis/core'
import { utf8Text } from '@osmosis/protocol/files'
import { parseExactJson, WrittenNumber } from '@osmosis/protocol/wire'
import type {
  DecodedArray,
  ParquetRowRange,
  ParquetScan,
  SchemaTree,
  Compressors,
  SchemaElement,
  ParquetParsers,
} from 'hyparquet'

import {
  assertCellSize,
  nameProblems,
  DataProblem,
  keyTwice,
  noting,
  parseCellJson,
  type RawRow,
} from './raw-row.ts'

/** Exact parsers of text, JSON and times for hyparquet; bytes that are not UTF-8 stay bytes. */
const exactParsers: Partial<ParquetParsers> = {
  stringFromBytes: (bytes) => utf8Text(bytes) ?? bytes,
  jsonFromBytes: (bytes) => {
    const text = utf8Text(bytes)
    if (text === undefined) return bytes
    try {
      return parseCellJson(text)
    } catch (error) {
      return error instanceof DataProblem ? error : text
    }
  },
  timestampFromMicroseconds: (since) => exactTime(since, 1000n),
  timestampFromNanoseconds: (since) => exactTime(since, 1_000_000n),
}

/** A time since 1970 as ISO text, where a date would lose digits; otherwise a date, which may be an invalid one. */
function exactTime(since: bigint, perMillisecond: bigint): string | Date {
  const rest = ((since % perMillisecond) + perMillisecond) % perMillisecond
  const date = new Date(Number((since - rest) / perMillisecond))
  if (rest === 0n || Number.isNaN(date.getTime())) return date
  const digits = String(rest + perMillisecond).slice(1)
  return date.toISOString().replace('Z', `${digits.replace(/000$/, '')}Z`)
}

/**
 * Converts a value of hyparquet to the form of `parseExactJson`.
 *
 * @throws DataProblem
 */
function toCell(value: unknown): unknown {
  if (value === undefined || value === null) return null
  if (typeof value === 'bigint') return parseExactJson(String(value))
  if (typeof value === 'number') return numberCell(value)
  if (typeof value === 'string') assertCellSize(value.length)
  if (typeof value !== 'object' || value instanceof WrittenNumber) return value
  if (value instanceof DataProblem) throw value
  if (value instanceof Date) return dateCell(value)
  if (value instanceof Uint8Array) return bytesCell(value)
  if (Array.isArray(value)) return value.map(toCell)
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, toCell(part)]))
}

function numberCell(value: number): number {
  if (!Number.isFinite(value)) {
    throw new DataProblem(
      `expected a number, got ${value}, which JSON does not support; write null or text`,
    )
  }
  return value
}

function dateCell(date: Date): string {
  if (Number.isNaN(date.getTime())) {
    throw new DataProblem('expected a date within 270,000 years of 1970; write it as text')
  }
  return date.toISOString()
}

function bytesCell(bytes: Uint8Array): string {
  assertCellSize(bytes.length)
  const text = utf8Text(bytes)
  if (text === undefined) {
    throw new DataProblem(
      'expected text, got bytes that are not UTF-8; write them as text (base64, say) or remove the column',
    )
  }
  return text
}

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
  if (problems.length > 0) return []
  return schema.map((column) => {
    const { name } = column.element
    const place = `column ${JSON.stringify(name)}`
    const scale = noting(problems, place, () => {
      assertGroups(column)
      takeMaps(column)
      return takeDecimalScale(column)
    })
    return { name, place, toCell: cellReader(column, scale) }
  })
}

/**
 * Old writers, such as those of Avro, leave out a level between a list and its structs. hyparquet reads the structs of
 * such a list as their only value, or the list as a struct. It reads the last of two fields with one name.
 *
 * @throws DataProblem
 */
function assertGroups({ element, children, path }: SchemaTree): void {
  const [repeated] = children
  const names = children.map((child) => child.element.name)
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  if (twice !== undefined) throw keyTwice([...path.slice(1), twice].join('.'))
  const fields = element.converted_type === 'LIST' ? (repeated?.children.length ?? 0) : 0
  if (fields > 1 || (fields === 1 && /^array$|_tuple$/.test(repeated?.element.name ?? ''))) {
    throw new DataProblem(
      'lists of structs in the form of old writers cannot be read; write them with the levels list and element',
    )
  }
  children.forEach(assertGroups)
}

/** Makes hyparquet read the entries of maps as structs: of two entries with one key, a map has only the last. */
function takeMaps({ element, children }: SchemaTree): void {
  const isAnnotated = element.converted_type === 'MAP' || element.logical_type?.type === 'MAP'
  if (isAnnotated && children[0]?.children.length === 2) {
    delete element.converted_type
    element.logical_type = { type: 'MAP' }
  }
  children.forEach(takeMaps)
}

function cellReader(column: SchemaTree, scale: number | undefined): ParquetColumn['toCell'] {
  if (scale !== undefined) return (value) => toDecimal(value, scale)
  return hasTypes(column) ? (value) => toCell(withTypes(value, column)) : toCell
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
    const { codec = 'an unknown codec', path_in_schema: path = [] } = chunkOf(scan, column) ?? {}
    const advice = codec.startsWith('LZ4')
      ? 'Write the file with zstd or snappy compression instead.'
      : `The file is broken, or uses what is not supported; write it again${path.length > 1 ? ', with data pages of version 1.0' : ''}.`
    throw new Error(
      `column ${JSON.stringify(column)}, compressed with ${codec}, cannot be decoded in rows ${range.rowStart} to ${range.rowEnd - 1} (${errorMessage(cause)}). ${advice}`,
      { cause },
    )
  }
}

function chunkOf({ metadata }: ParquetScan, column: string) {
  const chunks = metadata.row_groups.flatMap(({ columns }) => columns)
  return chunks.find(({ meta_data: data }) => data?.path_in_schema[0] === column)?.meta_data
}

/**
 * Makes hyparquet read the decimals of a column as integers, because it multiplies them as floats: 1.15
 * would become 1.1500000000000001.
 *
 * @returns the number of digits after the point, for {@link toDecimal}; undefined for other columns
 * @throws DataProblem for decimals that are nested or stored in a rare form
 */
function takeDecimalScale({ element, children }: SchemaTree): number | undefined {
  if (children.some(hasDecimals) || (isDecimal(element) && element.type === 'BYTE_ARRAY')) {
    throw new DataProblem(
      'decimals inside of lists or structs, or stored as BYTE_ARRAY, cannot be read exactly; write them as text or floats',
    )
  }
  if (!isDecimal(element)) return undefined
  const logicalType = element.logical_type
  delete element.converted_type
  delete element.logical_type
  return element.scale ?? (logicalType?.type === 'DECIMAL' ? logicalType.scale : 0)
}

/** A decimal in the form of `parseExactJson`: the zero of `1.50` is preserved. */
function toDecimal(unscaled: unknown, scale: number): unknown {
  if (unscaled === undefined || unscaled === null) return null
  const integer =
    unscaled instanceof Uint8Array ? toInteger(unscaled) : BigInt(unscaled as number | bigint)
  const digits = String(integer < 0n ? -integer : integer).padStart(scale + 1, '0')
  const point = digits.length - scale
  const fraction = scale === 0 ? '' : `.${digits.slice(point)}`
  return parseExactJson(`${integer < 0n ? '-' : ''}${digits.slice(0, point)}${fraction}`)
}

/** Big-endian, in two's complement. */
function toInteger(bytes: Uint8Array): bigint {
  return BigInt.asIntN(bytes.length * 8, BigInt(`0x${Buffer.from(bytes).toString('hex')}`))
}

function hasDecimals({ element, children }: SchemaTree): boolean {
  return isDecimal(element) || children.some(hasDecimals)
}

function isDecimal(element: SchemaElement): boolean {
  return element.converted_type === 'DECIMAL' || element.logical_type?.type === 'DECIMAL'
}

/** An open Parquet file, whose columns can be read row group by row group. */
interface ParquetFile {
  readonly scan: ParquetScan
  /** One per column of the table, in order. */
  readonly schema: readonly SchemaTree[]
}

/**
 * Opens a Parquet file. The packages that read it are optional, so they are imported only here.
 *
 * @throws Error
 */
async function openParquet(file: string): Promise<ParquetFile> {
  const [hyparquet, { compressors }] = await importReader()
  try {
    const scan = await hyparquet.parquetScan({
      file: await hyparquet.asyncBufferFromFile(file),
      compressors: withEmptyPages(compressors),
      parsers: exactParsers,
    })
    return { scan, schema: hyparquet.parquetSchema(scan.metadata).children }
  } catch (cause) {
    throw new Error(
      `it is not a Parquet file, or a broken or encrypted one (${errorMessage(cause)}); write it again`,
      { cause },
    )
  }
}

async function importReader() {
  try {
    return await Promise.all([import('hyparquet'), import('hyparquet-compressors')])
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new Error(
      'Parquet needs two packages that are not installed. Run: npm install hyparquet hyparquet-compressors',
      { cause },
    )
  }
}

/** Bytes. Pages usually have 1 MiB; a small broken or malicious file may claim one that fills the memory. */
const largestPage = 2 ** 30

/** LZ4 of hyparquet-compressors fails for empty pages, which columns of nulls have. */
function withEmptyPages(compressors: Compressors): Compressors {
  return Object.fromEntries(
    Object.entries(compressors).map(([codec, decompress]) => [
      codec,
      (input: Uint8Array, length: number) => {
        if (length > largestPage) throw new Error(`a page of ${length} bytes is too large`)
        return length === 0 ? new Uint8Array() : decompress(input, length)
      },
    ]),
  )
}

/** Whether a column has something at any depth that {@link withTypes} reads. */
function hasTypes(schema: SchemaTree): boolean {
  return typeOf(schema) !== undefined || isMap(schema) || schema.children.some(hasTypes)
}

/** After {@link takeMaps}. */
function isMap({ element }: SchemaTree): boolean {
  return element.logical_type?.type === 'MAP' && element.converted_type === undefined
}

/**
 * Gives numbers in a value of hyparquet the meaning that their type has: times of a day become text, and floats of
 * 32 or 16 bits get the intended digits, because as a JavaScript number the 32-bit float for 0.1 is
 * 0.10000000149011612. Entries of a map become an object. Variants are unchanged.
 *
 * @throws DataProblem
 */
function withTypes(value: unknown, schema: SchemaTree): unknown {
  if (Array.isArray(value)) {
    const item = itemOf(schema)
    return value.map((part) => withTypes(part, item))
  }
  if (typeof value === 'number' || typeof value === 'bigint') {
    return typeOf(schema)?.(value) ?? value
  }
  const isGroup = schema.children.length > 0 && schema.element.logical_type?.type !== 'VARIANT'
  if (typeof value !== 'object' || value === null || !isGroup) return value
  const fields = Object.entries(value).map(([key, part]: [string, unknown]) => {
    const field = schema.children.find((child) => child.element.name === key)
    return [key, field ? withTypes(part, field) : part] as const
  })
  return isMap(schema) ? mapOf(fields[0]?.[1]) : Object.fromEntries(fields)
}

/** @throws DataProblem for a key that is there twice */
function mapOf(entries: unknown): Record<string, unknown> {
  const map = new Map<string, unknown>()
  for (const entry of (entries ?? []) as Readonly<Record<string, unknown>>[]) {
    const [key, value] = Object.values(entry)
    const name = String(toCell(key))
    if (map.has(name)) throw keyTwice(name)
    map.set(name, value)
  }
  return Object.fromEntries(map)
}

/** What a number of this type means; undefined when it means itself. */
function typeOf({ element }: SchemaTree): ((value: number | bigint) => unknown) | undefined {
  const { type, converted_type: converted, logical_type: logical } = element
  if (type === 'FLOAT') return (value) => shortestDecimal(Number(value), Math.fround)
  if (logical?.type === 'FLOAT16') return (value) => shortestDecimal(Number(value), roundTo16Bits)
  const unit = logical?.type === 'TIME' ? logical.unit : /^TIME_(.*)$/.exec(converted ?? '')?.[1]
  const perMillisecond = { MILLIS: 1n, MICROS: 1000n, NANOS: 1_000_000n }[unit ?? '']
  if (perMillisecond === undefined) return undefined
  return (value) => timeOfDay(BigInt(value), perMillisecond)
}

function timeOfDay(since: bigint, perMillisecond: bigint): string {
  if (since < 0n || since >= 86_400_000n * perMillisecond) {
    throw new DataProblem(`expected a time of a day, got ${since}; write it as text`)
  }
  const time = exactTime(since, perMillisecond)
  return (typeof time === 'string' ? time : time.toISOString()).slice('1970-01-01T'.length, -1)
}

/** The shortest decimal that rounds to this float. */
function shortestDecimal(float: number, round: (value: number) => number): number {
  for (let digits = 1; digits <= 9; digits += 1) {
    const decimal = Number(float.toPrecision(digits))
    if (round(decimal) === float) return decimal
  }
  return float
}

/** What Math.f16round does, which Node.js 22 does not have; ties go to the even neighbour. */
function roundTo16Bits(value: number): number {
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(value))), -14)
  const unit = 2 ** (exponent - 10)
  const steps = Math.round(value / unit)
  const isOddTie = steps - value / unit === 0.5 && steps % 2 !== 0
  return (isOddTie ? steps - 1 : steps) * unit
}

/** hyparquet omits the group between a list and its items. */
function itemOf(schema: SchemaTree): SchemaTree {
  const [repeated] = schema.children
  if (schema.element.converted_type !== 'LIST' || repeated === undefined) return schema
  const [item, ...others] = repeated.children
  return item === undefined || others.length > 0 ? repeated : item
}
