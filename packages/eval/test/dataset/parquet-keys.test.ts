import * as fc from 'fast-check'
import type { SchemaElement } from 'hyparquet-writer'
import { describe, expect, it } from 'vitest'

import { runs } from '../../../../test/kit/index.ts'
import { parquet } from './dataset-files.ts'
import { problemsAs, readAs } from './reading.ts'

const optional = { repetition_type: 'OPTIONAL' } as const
const text = { type: 'BYTE_ARRAY', converted_type: 'UTF8', ...optional } as const
const number = { type: 'INT64', ...optional } as const

type Type = Omit<SchemaElement, 'name'>

function map(
  name: string,
  value: readonly SchemaElement[] = [{ name: 'value', ...number }],
  key: Type = text,
): SchemaElement[] {
  return [
    { name, converted_type: 'MAP', num_children: 1, ...optional },
    { name: 'key_value', repetition_type: 'REPEATED', num_children: 2 },
    { name: 'key', ...key, repetition_type: 'REQUIRED' },
    ...value,
  ]
}

/** Rows with a column `x`. */
function fileOf(data: unknown[], schema: readonly SchemaElement[]): Uint8Array {
  const columns = ['user_prompt', 'label'].map((name) => ({ name, data: data.map(() => 'a') }))
  return parquet([...columns, { name: 'x', data }], {
    codec: 'UNCOMPRESSED',
    schema: [
      { name: 'root', num_children: 3 },
      { name: 'user_prompt', ...text },
      { name: 'label', ...text },
      ...schema,
    ],
  })
}

const struct: SchemaElement = { name: 'x', num_children: 1, ...optional }
const list = (name: string): SchemaElement[] => [
  { name, converted_type: 'LIST', num_children: 1, ...optional },
  { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
]
const twice = [
  ['a', 1n],
  ['b', 2n],
  ['a', 3n],
]
const integer: Type = { type: 'INT32' }
const time: Type = { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' }

describe('a key that a Parquet file has twice', () => {
  it.each<[string, SchemaElement[], unknown, string]>([
    ['in a map', map('x'), twice, 'a'],
    ['with one value both times', map('x'), [twice[0], twice[0]], 'a'],
    ['with a null', map('x'), [['a', null], twice[0]], 'a'],
    [
      'that is empty',
      map('x'),
      [
        ['', 1n],
        ['', 2n],
      ],
      '',
    ],
    [
      'that is __proto__',
      map('x'),
      [
        ['__proto__', 1n],
        ['__proto__', 2n],
      ],
      '__proto__',
    ],
    [
      'that is a number',
      map('x', undefined, integer),
      [
        [7, 1n],
        [7, 2n],
      ],
      '7',
    ],
    [
      'that is a time',
      map('x', undefined, time),
      [
        [new Date(0), 1n],
        [new Date(0), 2n],
      ],
      '1970-01-01T00:00:00.000Z',
    ],
    ['in a map of a struct', [struct, ...map('m')], { m: twice }, 'a'],
    ['in a map of a list', [...list('x'), ...map('element')], [[['b', 1n]], twice], 'a'],
    ['in a map of a map', map('x', map('value')), [['b', twice]], 'a'],
    [
      'outside of a map',
      map('x', map('value')),
      [
        ['b', [['a', 1n]]],
        ['b', []],
      ],
      'b',
    ],
  ])('is an error with its row, %s', async (_name, schema, value, key) => {
    expect(await problemsAs('rows.parquet', fileOf([null, value], schema))).toEqual([
      `- row 1: column "x": the key ${JSON.stringify(key)} is there twice; keep one of them`,
    ])
  })

  it.each([
    ['{"a":1,"a":1}', 'a'],
    ['[{"a":1},{"a":{"b":1,"c":2,"b":3}}]', 'a.b'],
    [String.raw`{"a":1,"\u0061":2}`, 'a'],
    ['{"":1,"":2}', ''],
    ['{"__proto__":1,"__proto__":2}', '__proto__'],
  ])('is an error with its row, in JSON: %s', async (json, key) => {
    const type = { type: 'BYTE_ARRAY', converted_type: 'JSON', ...optional } as const
    // The writer takes values, so that the text of one becomes another of its length.
    const held = 'h'.repeat(json.length - 2)
    const file = Buffer.from(fileOf([null, held], [{ name: 'x', ...type }]))
    for (let at = file.indexOf(`"${held}"`); at !== -1; at = file.indexOf(`"${held}"`)) {
      file.write(json, at)
    }
    expect(await problemsAs('rows.parquet', file)).toEqual([
      `- row 1: column "x": the key ${JSON.stringify(key)} is there twice; keep one of them`,
    ])
  })

  it.each<[string, SchemaElement[], unknown, string]>([
    [
      'x',
      [
        { ...struct, num_children: 2 },
        { name: 'a', ...number },
        { name: 'a', ...number },
      ],
      { a: 1n },
      'a',
    ],
    [
      's',
      [
        struct,
        { ...struct, name: 's', num_children: 2 },
        { name: 'a', ...text },
        { name: 'a', ...text },
      ],
      { s: { a: 'b' } },
      's.a',
    ],
  ])(
    'is an error of the column, as the name of two fields of %s',
    async (_name, schema, value, key) => {
      expect(await problemsAs('rows.parquet', fileOf([value], schema))).toEqual([
        `- column "x": the key "${key}" is there twice; keep one of them`,
      ])
    },
  )
})

it('maps whose keys are there once are read as they are, at any depth', async () => {
  const numbers = fc.option(fc.nat(9), { nil: null })
  const keys = fc.constantFrom('a', 'b', 'key', '__proto__', '', '7', '\u{1f600}')
  const entries = <T>(value: fc.Arbitrary<T>) =>
    fc.option(fc.uniqueArray(fc.tuple(keys, value), { maxLength: 3, selector: ([key]) => key }), {
      nil: null,
    })
  const maps = fc.array(entries(entries(numbers)), { minLength: 1, maxLength: 5 })
  await fc.assert(
    fc.asyncProperty(maps, async (data) => {
      const outer = map('x', map('value', [{ name: 'value', ...integer, ...optional }]))
      const rows = await readAs('rows.parquet', fileOf(data, outer))
      const objects = data.map(
        (one) =>
          one &&
          Object.fromEntries(one.map(([key, inner]) => [key, inner && Object.fromEntries(inner)])),
      )
      expect(rows.map(({ otherColumns }) => otherColumns['x'] ?? null)).toEqual(objects)
    }),
    { numRuns: runs(100) },
  )
})
