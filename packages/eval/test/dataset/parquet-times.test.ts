import * as fc from 'fast-check'
import type { SchemaElement } from 'hyparquet-writer'
import { describe, expect, it } from 'vitest'

import { runs } from '../../../../test/kit/index.ts'
import { parquet } from './dataset-files.ts'
import { problemsAs, readAs } from './reading.ts'

const text = { type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' } as const

/** Rows with a value each in the column `x`, which has this schema. */
const withColumn = (schema: readonly SchemaElement[], data: unknown[]): Uint8Array =>
  parquet(
    [
      { name: 'user_prompt', data: data.map(() => 'a') },
      { name: 'label', data: data.map(() => '1') },
      { name: 'x', data },
    ],
    {
      schema: [
        { name: 'root', num_children: 3 },
        { name: 'user_prompt', ...text },
        { name: 'label', ...text },
        ...schema,
      ],
    },
  )

/** A column of values of this type: plain, in lists, and in structs within lists. */
function nestings(
  leaf: Omit<SchemaElement, 'name'>,
): [SchemaElement[], (value: unknown) => unknown][] {
  const optional = { repetition_type: 'OPTIONAL' } as const
  const list: SchemaElement[] = [
    { name: 'x', converted_type: 'LIST', num_children: 1, ...optional },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
  ]
  return [
    [[{ name: 'x', ...leaf, ...optional }], (value) => value],
    [[...list, { name: 'element', ...leaf, ...optional }], (value) => [value, null]],
    [
      [
        ...list,
        { name: 'element', num_children: 1, ...optional },
        { name: 'at', ...leaf, ...optional },
      ],
      (value) => [null, { at: value }],
    ],
  ]
}

const utc = { isAdjustedToUTC: true } as const
const units = { MILLIS: 1n, MICROS: 1000n, NANOS: 1_000_000n } as const

/** Back to the unit. */
function unitsOf(iso: string, perMillisecond: bigint): bigint {
  const [, seconds = '', fraction = ''] = /^(.+)\.(\d{3}|\d{6}|\d{9})Z$/.exec(iso) ?? []
  const whole = BigInt(Date.parse(`${seconds}Z`)) * perMillisecond
  return whole + (BigInt(fraction.padEnd(9, '0')) * perMillisecond) / 1_000_000n
}

describe('times', () => {
  it.each([
    ['MICROS', { logical_type: { type: 'TIMESTAMP', unit: 'MICROS', ...utc } }],
    ['MICROS', { converted_type: 'TIMESTAMP_MICROS' }],
    ['NANOS', { logical_type: { type: 'TIMESTAMP', unit: 'NANOS', ...utc } }],
    ['MILLIS', { logical_type: { type: 'TIMESTAMP', unit: 'MILLIS', ...utc } }],
    ['MILLIS', { converted_type: 'TIMESTAMP_MILLIS' }],
  ] as const)('since 1970 in %s keep all digits, with %j', async (unit, annotation) => {
    const per = units[unit]
    const limit = unit === 'NANOS' ? 2n ** 63n - 1n : 8_640_000_000_000_000n * per
    const since = fc.oneof(
      fc.bigInt({ min: -limit, max: limit }),
      fc.bigInt({ min: -2_000_000n, max: 2_000_000n }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(since, { minLength: 1 }), async (values) => {
        for (const [schema, nest] of nestings({ type: 'INT64', ...annotation })) {
          const rows = await readAs('rows.parquet', withColumn(schema, values.map(nest)))
          const found = JSON.stringify(rows.map(({ otherColumns }) => otherColumns['x']))
          const times = [...found.matchAll(/"([^"]+Z)"/g)].map(([, time = '']) => time)
          expect(times.map((time) => unitsOf(time, per))).toEqual(values)
        }
      }),
      { numRuns: runs(20) },
    )
  })

  it.each([
    ['MILLIS', 'INT32', 1n, '00:00:00.001'],
    ['MILLIS', 'INT32', 86_399_999n, '23:59:59.999'],
    ['MICROS', 'INT64', 45_296_123_456n, '12:34:56.123456'],
    ['MICROS', 'INT64', 45_296_123_000n, '12:34:56.123'],
    ['NANOS', 'INT64', 45_296_000_000_001n, '12:34:56.000000001'],
    ['NANOS', 'INT64', 45_296_123_456_000n, '12:34:56.123456'],
  ] as const)('of a day in %s are text with all digits', async (unit, type, value, expected) => {
    const logical = { logical_type: { type: 'TIME', unit, ...utc } } as const
    const converted = { converted_type: `TIME_${unit}` } as const
    const annotations =
      unit === 'NANOS' ? [logical] : [logical, converted as { converted_type: 'TIME_MICROS' }]
    for (const [schema, nest] of annotations.flatMap((one) => nestings({ type, ...one }))) {
      const written = type === 'INT32' ? Number(value) : value
      const [row] = await readAs('rows.parquet', withColumn(schema, [nest(written)]))
      expect(row?.otherColumns).toEqual({ x: nest(expected) })
    }
  })

  it('that are none of a day are a problem of their row', async () => {
    const time = { type: 'TIME', unit: 'MICROS', ...utc } as const
    const schema = [{ name: 'x', type: 'INT64', logical_type: time } as const]
    expect(
      await problemsAs('rows.parquet', withColumn(schema, [0n, -1n, 86_400_000_000n])),
    ).toEqual([
      '- row 1: column "x": expected a time of a day, got -1; write it as text',
      '- row 2: column "x": expected a time of a day, got 86400000000; write it as text',
    ])
  })
})
