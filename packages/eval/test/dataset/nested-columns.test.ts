import type { OsmosisError } from '@osmosis/core'
import * as fc from 'fast-check'
import type { ColumnSource, SchemaElement } from 'hyparquet-writer'
import { expect, it } from 'vitest'

import { runs } from '../../../../test/kit/index.ts'
import { codecs, parquet } from './dataset-files.ts'
import { problemsAs, readAs } from './reading.ts'

const optional = { repetition_type: 'OPTIONAL' } as const
const text = { type: 'BYTE_ARRAY', converted_type: 'UTF8', ...optional } as const

/** Rows whose column `x` has lists of structs with a number. */
function fileOf(
  data: readonly unknown[],
  how: Partial<ColumnSource>,
  pageSize: number,
): Uint8Array {
  const schema: SchemaElement[] = [
    { name: 'root', num_children: 3 },
    { name: 'user_prompt', ...text },
    { name: 'label', ...text },
    { name: 'x', converted_type: 'LIST', num_children: 1, ...optional },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
    { name: 'element', num_children: 1, ...optional },
    { name: 'n', type: 'INT32', ...optional },
  ]
  const columns = [
    { name: 'user_prompt', data: data.map(() => 'a') },
    { name: 'label', data: data.map(() => '1') },
    { name: 'x', data: [...data], ...how },
  ]
  return parquet(columns, { schema, rowGroupSize: 1000, pageSize })
}

const optionally = <T>(some: fc.Arbitrary<T>): fc.Arbitrary<T | null> =>
  fc.option(some, { nil: null, freq: 3 })
const lists = optionally(
  fc.array(optionally(fc.record({ n: optionally(fc.nat(9)) })), { maxLength: 3 }),
)
const how = fc.record(
  {
    encoding: fc.constantFrom(
      'PLAIN',
      'RLE_DICTIONARY',
      'DELTA_BINARY_PACKED',
      'BYTE_STREAM_SPLIT',
    ),
    codec: fc.constantFrom(...codecs),
    offsetIndex: fc.boolean(),
  },
  { requiredKeys: ['codec'] },
)

const columnOf = async (file: Uint8Array): Promise<unknown[]> =>
  (await readAs('rows.parquet', file)).map(({ otherColumns }) => otherColumns['x'] ?? null)

it('lists of structs in pages of version 2 are read as they are, in one page and in many', async () => {
  const rows = fc.array(lists, { minLength: 1, maxLength: 30 })
  await fc.assert(
    fc.asyncProperty(rows, how, fc.constantFrom(1, 20, 0), async (data, column, pageSize) => {
      expect(await columnOf(fileOf(data, column, pageSize))).toEqual(data)
    }),
    { numRuns: runs(100) },
  )
})

/** How Arrow wrote such pages before version 26: the nulls in the header of the page leave out lists without structs. */
function withFewerNulls(
  file: Uint8Array,
  data: readonly (readonly unknown[] | null)[],
): Uint8Array {
  const values = data.flatMap((list) => (list?.length ? list : [undefined]))
  const nulls = values.filter((value) => (value as { n: unknown } | null | undefined)?.n == null)
  const counts = [values.length, nulls.length, data.length]
  // Three integers of the header, each below 64.
  const header = Buffer.from(counts.flatMap((count) => [0x15, count * 2]))
  const at = Buffer.from(file).lastIndexOf(header)
  expect(at).toBeGreaterThan(0)
  return file.with(at + 3, nulls.filter((value) => value !== undefined).length * 2)
}

it('lists of structs whose pages count nulls wrong are read as they are, or the column is refused', async () => {
  const rows = fc
    .array(lists, { minLength: 1, maxLength: 12 })
    .map((some) => [...some, [], [{ n: 7 }]])
  let refused = 0
  await fc.assert(
    fc.asyncProperty(rows, how, async (data, column) => {
      const file = withFewerNulls(fileOf(data, column, 0), data)
      const outcome = await columnOf(file).catch(({ message }: OsmosisError) => {
        refused += 1
        const isClear =
          /: column "x", .*(?:Write the file with zstd or snappy compression instead|with data pages of version 1\.0)\.$/
        return isClear.test(message) ? data : message
      })
      expect(outcome).toEqual(data)
    }),
    { numRuns: runs(100) },
  )
  expect(refused).toBeGreaterThan(0)
  expect(refused).toBeLessThan(runs(100))
})

const refused = [
  '- column "x": lists of structs in the form of old writers cannot be read; write them with the levels list and element',
]

it.each(['array', 'x_tuple'])(
  'lists of structs of old writers, under %s, are refused',
  async (name) => {
    const schema: SchemaElement[] = [
      { name: 'root', num_children: 3 },
      { name: 'user_prompt', ...text },
      { name: 'label', ...text },
      { name: 'x', num_children: 1, ...optional },
      { name: 'inner', converted_type: 'LIST', num_children: 1, ...optional },
      { name, repetition_type: 'REPEATED', num_children: 1 },
      { name: 'n', type: 'INT32', ...optional },
    ]
    const columns = ['user_prompt', 'label'].map((column) => ({ name: column, data: ['a'] }))
    const file = parquet([...columns, { name: 'x', data: [{ inner: [1] }] }], { schema })
    expect(await problemsAs('rows.parquet', file)).toEqual(refused)
  },
)

it('lists of structs with several fields that lack a level are refused', async () => {
  const schema: SchemaElement[] = [
    { name: 'root', num_children: 3 },
    { name: 'user_prompt', ...text },
    { name: 'label', ...text },
    { name: 'x', converted_type: 'MAP', num_children: 1, ...optional },
    { name: 'key_value', repetition_type: 'REPEATED', num_children: 2 },
    { name: 'key', ...text, repetition_type: 'REQUIRED' },
    { name: 'value', type: 'INT32', ...optional },
  ]
  const columns = ['user_prompt', 'label'].map((column) => ({ name: column, data: ['a'] }))
  const file = Buffer.from(parquet([...columns, { name: 'x', data: [{ a: 1 }] }], { schema }))
  // The annotation of the column becomes LIST, which no writer does with such groups.
  const annotation = file.lastIndexOf(Buffer.from([0x01, 0x78, 0x15, 0x02, 0x15, 0x02])) + 5
  file[annotation] = 3 * 2
  expect(await problemsAs('rows.parquet', file)).toEqual(refused)
})
