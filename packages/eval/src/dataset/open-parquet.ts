import { errorMessage } from '@osmosis/core'
import type { Compressors, ParquetScan, SchemaTree } from 'hyparquet'

import { exactParsers } from './parquet-cells.ts'

/** An open Parquet file, whose columns can be read row group by row group. */
export interface ParquetFile {
  readonly scan: ParquetScan
  /** One per column of the table, in order. */
  readonly schema: readonly SchemaTree[]
}

/**
 * Opens a Parquet file. The packages that read it are optional, so they are imported only here.
 *
 * @throws Error
 */
export async function openParquet(file: string): Promise<ParquetFile> {
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

/** The LZ4 of hyparquet-compressors fails on empty pages, which columns of nulls have. */
function withEmptyPages(compressors: Compressors): Compressors {
  return Object.fromEntries(
    Object.entries(compressors).map(([codec, decompress]) => [
      codec,
      (input: Uint8Array, length: number) =>
        length === 0 ? new Uint8Array() : decompress(input, length),
    ]),
  )
}
