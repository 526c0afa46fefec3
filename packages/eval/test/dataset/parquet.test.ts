import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import type { OsmosisError } from '@osmosis/core'
import { readDataset } from '@osmosis/eval'
import type { ColumnSource, SchemaElement } from 'hyparquet-writer'
import { describe, expect, it } from 'vitest'

import { runs, temporaryFolder } from '../../../../test/kit/index.ts'
import { parquet } from './dataset-files.ts'
import { problemsAs, readAs, refusalAs } from './reading.ts'

const prompt: ColumnSource = { name: 'user_prompt', data: ['a'] }
const label: ColumnSource = { name: 'label', data: ['1'] }

const text = { type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' } as const

type ColumnSchema = readonly [SchemaElement, ...SchemaElement[]]

/** A row with a prompt, a label and one more value, whose schema is this. */
function withValue(schema: ColumnSchema, value: unknown): Uint8Array {
  return parquet([prompt, label, { name: schema[0].name, data: [value] }], {
    schema: [
      { name: 'root', num_children: 3 },
      { name: 'user_prompt', ...text },
      { name: 'label', ...text },
      ...schema,
    ],
  })
}

function optional(name: string, more: Partial<SchemaElement>): SchemaElement {
  return { name, repetition_type: 'OPTIONAL', ...more }
}

describe('values', () => {
  const uuid = '123e4567-e89b-12d3-a456-426614174000'
  const nested = { a: [2n ** 62n, new Date(0)] }

  it.each([
    ['small integers', 'INT32', 7, 7],
    ['integers', 'INT64', -7n, -7],
    ['the largest exact integer', 'INT64', 9007199254740991n, 9007199254740991],
    ['larger integers, which become text', 'INT64', 9007199254740992n, '9007199254740992'],
    ['the smallest integer', 'INT64', -9223372036854775808n, '-9223372036854775808'],
    ['floats', 'DOUBLE', 0.1, 0.1],
    ['large floats', 'DOUBLE', 1e17, 1e17],
    ['booleans', 'BOOLEAN', false, false],
    ['text', 'STRING', 'é\u2028', 'é\u2028'],
    ['empty text', 'STRING', '', ''],
    ['bytes that are text', 'BYTE_ARRAY', Buffer.from('é'), 'é'],
    ['dates', 'TIMESTAMP', new Date(86_400_001), '1970-01-02T00:00:00.001Z'],
    ['UUIDs', 'UUID', uuid, uuid],
    ['JSON', 'JSON', { a: [1, null, 'x', 2 ** 53] }, { a: [1, null, 'x', '9007199254740992'] }],
    ['variants', 'VARIANT', nested, { a: ['4611686018427387904', '1970-01-01T00:00:00.000Z'] }],
  ] as const)('may be %s', async (_name, type, value, expected) => {
    const file = parquet([prompt, label, { name: 'x', data: [value], type }])
    expect((await readAs('rows.parquet', file))[0]?.otherColumns).toEqual({ x: expected })
  })

  it('may be lists, maps and structs, with integers of any size inside', async () => {
    const file = withValue(
      [
        optional('x', { num_children: 3 }),
        optional('id', { type: 'INT64' }),
        optional('tags', { converted_type: 'LIST', num_children: 1 }),
        { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
        optional('element', { type: 'INT64' }),
        optional('counts', { converted_type: 'MAP', num_children: 1 }),
        { name: 'key_value', repetition_type: 'REPEATED', num_children: 2 },
        { name: 'key', ...text, repetition_type: 'REQUIRED' },
        optional('value', { type: 'INT64' }),
      ],
      { id: null, tags: [1n, null, 2n ** 53n], counts: { a: -(2n ** 60n) } },
    )
    expect((await readAs('rows.parquet', file))[0]?.otherColumns).toEqual({
      x: { id: null, tags: [1, null, '9007199254740992'], counts: { a: '-1152921504606846976' } },
    })
  })

  it('that are null are omitted', async () => {
    const file = parquet([prompt, label, { name: 'x', data: [null], type: 'INT64' }])
    expect((await readAs('rows.parquet', file))[0]?.otherColumns).toEqual({})
  })

  it('of JSON that is broken stay text', async () => {
    const schema = optional('x', { type: 'BYTE_ARRAY', converted_type: 'UTF8' })
    const file = Buffer.from(withValue([schema], '{'))
    // The annotation of the last column becomes JSON, which no writer does with such text.
    const annotation = file.lastIndexOf(Buffer.from([0x01, 0x78, 0x25, 0x00])) + 3
    file[annotation] = 19 * 2
    expect((await readAs('rows.parquet', file))[0]?.otherColumns).toEqual({ x: '{' })
  })
})

describe('labels', () => {
  it.each([
    ['INT64', 9007199254740993n, '9007199254740993'],
    ['DOUBLE', 1.5, '1.5'],
    ['BOOLEAN', true, 'true'],
    ['JSON', { a: 1.5 }, '{"a":1.5}'],
  ] as const)('are the text of an %s', async (type, value, expected) => {
    const file = parquet([prompt, { name: 'ground_truth', data: [value], type }])
    expect((await readAs('rows.parquet', file))[0]?.label).toBe(expected)
  })

  it.each([
    ['INT32', 1.15, '1.15'],
    ['INT64', 999999999999999999n, '9999999999999999.99'],
    ['INT64', -5n, '-0.05'],
    ['FIXED_LEN_BYTE_ARRAY', 12345678901234567890n, '123456789012345678.90'],
    ['FIXED_LEN_BYTE_ARRAY', -150n, '-1.50'],
    ['FIXED_LEN_BYTE_ARRAY', null, '1'],
  ] as const)('are decimals with all digits, stored as %s', async (type, value, expected) => {
    const decimal = { type, type_length: 9, converted_type: 'DECIMAL', precision: 20 } as const
    const file = withValue([optional('ground_truth', { ...decimal, scale: 2 })], value)
    expect((await readAs('rows.parquet', file))[0]?.label).toBe(expected)
  })

  it('are decimals too when only the newer annotation says so', async () => {
    const type = { type: 'DECIMAL', precision: 5, scale: 2 } as const
    const file = withValue([optional('ground_truth', { type: 'INT32', logical_type: type })], 150)
    expect((await readAs('rows.parquet', file))[0]?.label).toBe('1.50')
  })
})

it('metadata may be a struct or the text of one', async () => {
  const struct = withValue(
    [optional('metadata', { num_children: 1 }), optional('level', { type: 'INT64' })],
    { level: 1n },
  )
  const json = parquet([prompt, label, { name: 'metadata', data: ['{"level":1}'] }])
  const [fromStruct] = await readAs('rows.parquet', struct)
  const [fromText] = await readAs('rows.parquet', json)
  expect([fromStruct?.metadata, fromText?.metadata]).toEqual([{ level: 1 }, { level: 1 }])
})

describe('a bad file', () => {
  const prompts: ColumnSource = { name: 'user_prompt', data: ['a', 'b', 'c'] }
  const labels: ColumnSource = { name: 'label', data: ['1', '2', '3'] }
  const garbage = () => Uint8Array.of(1, 2, 3)

  it('is rejected with row and column of values that JSON cannot represent', async () => {
    const bytes = [Buffer.from('text'), Buffer.from([0xff, 0xd8]), null]
    const file = parquet([
      prompts,
      labels,
      { name: 'image', data: bytes, type: 'BYTE_ARRAY' },
      { name: 'score', data: [1, null, NaN], type: 'DOUBLE' },
      { name: 'when', data: [2n ** 62n, null, 0n], type: 'TIMESTAMP' },
    ])
    expect(await problemsAs('rows.parquet', file)).toEqual([
      '- row 0: column "when": expected a date within 270,000 years of 1970; write it as text',
      '- row 1: column "image": expected text, got bytes that are not UTF-8; write them as text (base64, say) or remove the column',
      '- row 2: column "score": expected a number, got NaN, which JSON does not support; write null or text',
    ])
  })

  it('is rejected with the rows, from 0, that cannot be used', async () => {
    const file = parquet([
      { name: 'user_prompt', data: ['a', null, 'c', null], type: 'STRING' },
      { name: 'metadata', data: [null, null, '[1]', '{'], type: 'STRING' },
    ])
    expect(await problemsAs('rows.parquet', file)).toEqual([
      '- row 1: has no prompt and no metadata; fill in user_prompt or metadata',
      '- row 2: metadata must be a JSON object, got array',
      expect.stringMatching(/^- row 3: metadata is not valid JSON \(.+\)$/),
    ])
  })

  it('is rejected for columns with the same name before any is decoded', async () => {
    const file = parquet([prompt, label, label], { codec: 'ZSTD', compressors: { ZSTD: garbage } })
    expect(await problemsAs('rows.parquet', file)).toEqual([
      '- there are two columns "label"; rename or remove one of them',
    ])
  })

  const decimal = { converted_type: 'DECIMAL', scale: 2, precision: 5 } as const

  it.each<[string, ColumnSchema, unknown]>([
    [
      'in a struct',
      [optional('x', { num_children: 1 }), optional('price', { type: 'INT32', ...decimal })],
      { price: 1.15 },
    ],
    ['as BYTE_ARRAY', [optional('x', { type: 'BYTE_ARRAY', ...decimal })], 115n],
  ])('is rejected for decimals %s', async (_name, schema, value) => {
    expect(await problemsAs('rows.parquet', withValue(schema, value))).toEqual([
      '- column "x": decimals inside of lists or structs, or stored as BYTE_ARRAY, cannot be read exactly; write them as text or floats',
    ])
  })

  it('is rejected if it is truncated anywhere, or of another format', async () => {
    const refusal =
      /^it is not a Parquet file, or a broken or encrypted one \(.+\); write it again$/
    const whole = parquet([prompt, label])
    // Every second length by default.
    for (let length = 0; length < whole.length; length += 2 / runs(2)) {
      expect(await refusalAs('rows.parquet', whole.slice(0, length))).toMatch(refusal)
    }
    expect(await refusalAs('rows.parquet', 'user_prompt,label\na,1\n')).toMatch(refusal)
  })

  it(
    'with any single broken byte throws nothing but an OsmosisError',
    { tags: 'slow' },
    async () => {
      const whole = parquet([prompts, labels], { codec: 'UNCOMPRESSED' })
      const file = join(await temporaryFolder(), 'rows.parquet')
      const outcomes: string[] = []
      for (const index of whole.keys()) {
        // One of the two by default, in turn.
        for (const byte of [0x00, 0xff, 0x00].slice(index % 2, (index % 2) + runs(2))) {
          await writeFile(file, whole.with(index, byte))
          const outcome = await readDataset(file).then(
            () => 'rows',
            ({ code, message }: OsmosisError) => `${code}: ${message}`,
          )
          expect(outcome).toMatch(/^rows$|^invalid_dataset: /)
          outcomes.push(outcome)
        }
      }
      const lost = 'cannot be decoded in rows 0 to 1 (expected 2 values, got 0). The file is broken'
      expect(outcomes.join('\n')).toContain(lost)
    },
  )

  it('is rejected with the column that cannot be decoded, and its rows', async () => {
    const file = parquet([prompts, labels], { codec: 'ZSTD', compressors: { ZSTD: garbage } })
    expect(await refusalAs('rows.parquet', file)).toMatch(
      /^column "user_prompt", compressed with ZSTD, cannot be decoded in rows 0 to 1 \(.+\)\. The file is broken, or uses what is not supported; write it again\.$/,
    )
  })

  it.each(['LZ4', 'LZ4_RAW'] as const)('of %s advises another compression', async (codec) => {
    // The frame format, which some writers put where blocks belong.
    const frame = (bytes: Uint8Array) =>
      Buffer.concat([Uint8Array.of(0x04, 0x22, 0x4d, 0x18), bytes])
    const columns = [prompts, { ...labels, codec }]
    const file = parquet(columns, { codec: 'SNAPPY', compressors: { [codec]: frame } })
    expect(await refusalAs('rows.parquet', file)).toMatch(
      new RegExp(
        `^column "label", compressed with ${codec}, cannot be decoded in rows 0 to 1 \\(.+\\)\\. Write the file with zstd or snappy compression instead\\.$`,
      ),
    )
  })
})
