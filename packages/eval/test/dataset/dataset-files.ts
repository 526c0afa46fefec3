import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib'

import { parquetWriteBuffer, type ParquetWriteOptions } from 'hyparquet-writer'

/** A Parquet file. With several row groups when there are more than two rows. */
export function parquet(
  columnData: ParquetWriteOptions['columnData'],
  options: Partial<ParquetWriteOptions> = {},
): Uint8Array {
  const file = parquetWriteBuffer({ columnData, rowGroupSize: 2, compressors, ...options })
  return new Uint8Array(file)
}

export const codecs = [
  'UNCOMPRESSED',
  'SNAPPY',
  'GZIP',
  'BROTLI',
  'ZSTD',
  'LZ4_RAW',
] as const satisfies ParquetWriteOptions['codec'][]

const compressors: NonNullable<ParquetWriteOptions['compressors']> = {
  GZIP: (bytes) => gzipSync(bytes),
  BROTLI: (bytes) => brotliCompressSync(bytes),
  ZSTD: (bytes) => zstdCompressSync(bytes),
  LZ4_RAW: lz4Literals,
}

/** An LZ4 block that repeats nothing. */
function lz4Literals(bytes: Uint8Array): Uint8Array {
  if (bytes.length < 15) return Uint8Array.of(bytes.length << 4, ...bytes)
  const rest = bytes.length - 15
  const length = [...Array.from({ length: Math.floor(rest / 255) }, () => 255), rest % 255]
  return Buffer.concat([Uint8Array.of(0xf0, ...length), bytes])
}

/** Comma-separated values; cells are put in quotes when they have to be, or when `quote` says so. */
export function csv(
  records: readonly (readonly string[])[],
  options: { lineEnd?: string; quote?: (cell: string) => boolean } = {},
): string {
  const { lineEnd = '\n', quote = () => false } = options
  const toCell = (cell: string) =>
    /[",\r\n]/.test(cell) || quote(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
  return records.map((record) => record.map(toCell).join(',') + lineEnd).join('')
}

/** JSON Lines. */
export function jsonLines(rows: readonly unknown[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join('')
}
