import type { SchemaElement } from 'hyparquet-writer'
import { describe, expect, it } from 'vitest'

import { parquet } from './dataset-files.ts'
import { problemsAs, readAs } from './reading.ts'

const prompt = { name: 'user_prompt', data: ['a'] }

function optional(name: string, more: Partial<SchemaElement>): SchemaElement {
  return { name, repetition_type: 'OPTIONAL', ...more }
}

describe('floats of fewer than 64 bits', () => {
  it.each([
    ['FLOAT', 0.1, 0.1],
    ['FLOAT', -1.15, -1.15],
    ['FLOAT', 16777216, 16777216],
    ['FLOAT', 3.4028234663852886e38, 3.4028235e38],
    ['FLOAT', 2 ** -149, 1e-45],
    ['FLOAT', 1 / 3, 0.33333334],
    ['FLOAT16', 0.0999755859375, 0.1],
    ['FLOAT16', -1.150390625, -1.15],
    ['FLOAT16', 0.33325195312, 0.3333],
    ['FLOAT16', 65504, 65500],
    ['FLOAT16', 2 ** -24, 6e-8],
    // 33200 and 34000 lie in the middle between two floats, and mean the one that ends in a zero bit.
    ['FLOAT16', 33184, 33180],
    ['FLOAT16', 33216, 33200],
    ['FLOAT16', 33984, 34000],
    ['FLOAT16', 34016, 34020],
    // Doubles have all the digits they are written with.
    ['DOUBLE', 0.10000000149011612, 0.10000000149011612],
  ] as const)(
    'are the shortest decimals with the same bits: %s %d',
    async (type, data, expected) => {
      const file = parquet([
        prompt,
        { name: 'ground_truth', data: [data], type },
        { name: 'x', data: [data], type },
      ])
      const [row] = await readAs('rows.parquet', file)
      expect([row?.label, row?.otherColumns]).toEqual([JSON.stringify(expected), { x: expected }])
    },
  )

  it('are so inside of lists, maps and structs, beside others', async () => {
    const schema: SchemaElement[] = [
      { name: 'root', num_children: 2 },
      optional('user_prompt', { type: 'BYTE_ARRAY', converted_type: 'UTF8' }),
      optional('metadata', { num_children: 5 }),
      optional('float', { type: 'FLOAT' }),
      optional('double', { type: 'DOUBLE' }),
      optional('when', { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' }),
      optional('list', { converted_type: 'LIST', num_children: 1 }),
      { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
      optional('element', { num_children: 1 }),
      optional('score', { type: 'FLOAT' }),
      optional('map', { converted_type: 'MAP', num_children: 1 }),
      { name: 'key_value', repetition_type: 'REPEATED', num_children: 2 },
      { name: 'key', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'REQUIRED' },
      optional('value', { converted_type: 'LIST', num_children: 1 }),
      { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
      optional('element', { type: 'FLOAT' }),
    ]
    const float = Math.fround(0.1)
    const metadata = {
      float,
      double: float,
      when: new Date(0),
      list: [{ score: float }, null],
      map: { key: [float, null], value: [] },
    }
    const file = parquet([prompt, { name: 'metadata', data: [metadata] }], { schema })
    expect((await readAs('rows.parquet', file))[0]?.metadata).toEqual({
      float: 0.1,
      double: 0.10000000149011612,
      when: '1970-01-01T00:00:00.000Z',
      list: [{ score: 0.1 }, null],
      map: { key: [0.1, null], value: [] },
    })
  })

  it.each(['FLOAT', 'FLOAT16'] as const)('must be numbers: %s', async (type) => {
    const data = [NaN, -Infinity, null]
    const prompts = { name: 'user_prompt', data: ['a', 'b', 'c'] }
    const labels = { name: 'label', data: ['1', '2', '3'] }
    const file = parquet([prompts, labels, { name: 'x', data, type }])
    expect(await problemsAs('rows.parquet', file)).toEqual(
      [NaN, -Infinity].map(
        (value, row) =>
          `- row ${row}: column "x": expected a number, got ${value}, which JSON does not support; write null or text`,
      ),
    )
  })
})
