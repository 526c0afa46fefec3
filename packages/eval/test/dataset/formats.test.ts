import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { codecs, csv, jsonLines, parquet } from './dataset-files.ts'
import { problemsAs, readAs } from './reading.ts'

const names = ['user_prompt', 'system_prompt', 'ground_truth', 'metadata', 'Topic'] as const

/** A row of text cells, whose metadata is JSON text. */
type TextRow = { readonly [Name in (typeof names)[number]]?: string | undefined }

function asCsv(rows: readonly TextRow[], options?: Parameters<typeof csv>[1]): string {
  return csv([names, ...rows.map((row) => names.map((name) => row[name] ?? ''))], options)
}

function asParquet(rows: readonly TextRow[], options?: Parameters<typeof parquet>[1]): Uint8Array {
  const columns = names.map((name) => ({
    name,
    data: rows.map((row) => row[name] ?? null),
    type: 'STRING' as const,
  }))
  return parquet(columns, options)
}

const rows: TextRow[] = [
  { user_prompt: '6 × 7', system_prompt: 'Multiply.', ground_truth: '0042', Topic: 'a' },
  { user_prompt: 'one,\r\n"two"\n', ground_truth: '9007199254740993', metadata: '{"a":{"b":[1]}}' },
  { user_prompt: ' ', ground_truth: 'null', metadata: '{}', Topic: 'true' },
  { metadata: '{"n":9007199254740993}', Topic: '1.0' },
]

const expected = [
  {
    sourceRowIndex: 0,
    initialMessages: [
      { role: 'system', content: 'Multiply.' },
      { role: 'user', content: '6 × 7' },
    ],
    label: '0042',
    metadata: null,
    otherColumns: { Topic: 'a' },
  },
  {
    sourceRowIndex: 1,
    initialMessages: [{ role: 'user', content: 'one,\r\n"two"\n' }],
    label: '9007199254740993',
    metadata: { a: { b: [1] } },
    otherColumns: {},
  },
  {
    sourceRowIndex: 2,
    initialMessages: [{ role: 'user', content: ' ' }],
    label: 'null',
    metadata: null,
    otherColumns: { Topic: 'true' },
  },
  {
    sourceRowIndex: 3,
    initialMessages: [],
    label: null,
    metadata: { n: '9007199254740993' },
    otherColumns: { Topic: '1.0' },
  },
]

describe('the same table', () => {
  it.each<[string, string | Uint8Array]>([
    ['rows.jsonl', jsonLines(rows)],
    ['rows.NDJSON', jsonLines(rows)],
    ['rows.csv', asCsv(rows)],
    ['ROWS.CSV', asCsv(rows)],
    ...codecs.map(
      (codec) => [`${codec}.parquet`, asParquet(rows, { codec })] as [string, Uint8Array],
    ),
    ['rows.Parquet', asParquet(rows)],
  ])('is read as the same rows from %s', async (name, content) => {
    expect(await readAs(name, content)).toEqual(expected)
  })

  it('gives the same rows in all formats', { tags: 'slow' }, async () => {
    const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 30 })
    const tricky = fc.constantFrom(
      '"',
      '""',
      ',',
      '\n',
      '\r',
      '\r\n',
      "'",
      '\uFEFF',
      '\u2028',
      '\\',
    )
    const cell = fc.array(fc.oneof(text, tricky), { minLength: 1, maxLength: 5 })
    const row = fc.record(
      {
        user_prompt: cell.map((parts) => parts.join('')),
        system_prompt: cell.map((parts) => parts.join('')),
        ground_truth: cell.map((parts) => parts.join('')),
        metadata: fc
          .dictionary(text, fc.jsonValue(), { minKeys: 1 })
          .map((value) => JSON.stringify(value)),
        Topic: cell.map((parts) => parts.join('')),
      },
      { requiredKeys: ['metadata'] },
    )
    const style = fc.record({
      lineEnd: fc.constantFrom('\n', '\r\n', '\r'),
      quote: fc.constantFrom(
        () => true,
        () => false,
        (quoted: string) => quoted.length % 2 === 0,
      ),
      codec: fc.constantFrom(...codecs),
      rowGroupSize: fc.integer({ min: 1, max: 4 }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 6 }), style, async (table, how) => {
        const { codec, rowGroupSize, ...csvStyle } = how
        const fromJson = await readAs('rows.jsonl', jsonLines(table))
        expect(await readAs('rows.csv', asCsv(table, csvStyle))).toEqual(fromJson)
        expect(await readAs('rows.parquet', asParquet(table, { codec, rowGroupSize }))).toEqual(
          fromJson,
        )
        expect(fromJson.map(({ label, otherColumns }) => [label, otherColumns.Topic])).toEqual(
          table.map(({ ground_truth: label, Topic }) => [label ?? null, Topic]),
        )
      }),
      { numRuns: 8 },
    )
  })
})

describe('column names', () => {
  const header = [' User_Prompt', 'SYSTEM_PROMPT ', 'Ground_Truth', 'LABEL', ' MetaData ', ' Id ']
  const cells = ['a', 's', '', 'l', '{"m":1}', 'i']
  const written = Object.fromEntries(header.map((name, index) => [name, cells[index] || null]))

  it.each<[string, string | Uint8Array]>([
    ['rows.jsonl', jsonLines([written])],
    ['rows.csv', csv([header, cells])],
    [
      'rows.parquet',
      parquet(header.map((name) => ({ name, data: [written[name]], type: 'STRING' }))),
    ],
  ])('are known in any case and with spaces around them in %s', async (name, content) => {
    expect(await readAs(name, content)).toEqual([
      {
        sourceRowIndex: 0,
        initialMessages: [
          { role: 'system', content: 's' },
          { role: 'user', content: 'a' },
        ],
        label: 'l',
        metadata: { m: 1 },
        otherColumns: { ' Id ': 'i' },
      },
    ])
  })

  const twice = ['User_Prompt', 'label', ' user_prompt']

  it.each([
    [
      'rows.jsonl',
      jsonLines([
        { User_Prompt: 'a', label: '1' },
        { ' user_prompt': 'b', label: '1' },
      ]),
    ],
    ['rows.csv', csv([twice, ['a', '1', 'b']])],
    ['rows.parquet', parquet(twice.map((name) => ({ name, data: ['a'], type: 'STRING' })))],
  ])('must not mean the same in %s', async (name, content) => {
    expect(await problemsAs(name, content)).toEqual([
      '- columns "User_Prompt" and " user_prompt" both mean user_prompt; keep one of them',
    ])
  })

  const naming =
    ' If other columns have them, the rows can stay: name those columns in [columns] of a config, as prompt = "…" and label = "…".'

  it.each<[string, string | Uint8Array, string]>([
    ['rows.jsonl', jsonLines([{ 'user_prompt;label': 'a;1' }]), naming],
    [
      'rows.csv',
      csv([['user_prompt;label'], ['a;1']]),
      ' Cells must be separated by commas, not by ";": save the file with commas.',
    ],
    ['rows.parquet', parquet([{ name: 'user_prompt;label', data: ['a;1'] }]), naming],
  ])('that mean nothing are shown when others are missing in %s', async (name, content, advice) => {
    expect(await problemsAs(name, content)).toEqual([
      `- missing required columns: user_prompt, ground_truth. Datasets without a metadata column must include user_prompt and ground_truth (label is accepted as an alias). Found: "user_prompt;label".${advice}`,
    ])
  })
})

describe('a table without rows', () => {
  const header = ['user_prompt', 'label']

  it.each<[string, string | Uint8Array]>([
    ['rows.jsonl', ''],
    ['rows.csv', ''],
    ['rows.csv', '\uFEFF'],
    ['rows.csv', csv([header])],
    ['rows.parquet', parquet(header.map((name) => ({ name, data: [], type: 'STRING' })))],
  ])('is invalid: %s', async (name, content) => {
    expect(await problemsAs(name, content)).toEqual(['- contains no rows'])
  })
})
