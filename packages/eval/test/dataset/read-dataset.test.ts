import { join } from 'node:path'

import { readDataset } from '@osmosis/eval'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { temporaryFolder, runs } from '../../../../test/kit/index.ts'
import { osmosisErrorOf } from '../thrown-by.ts'
import { problemsAs, readAs } from './reading.ts'

const readText = (text: string | Uint8Array) => readAs('rows.jsonl', text)
const problemsOf = (text: string | Uint8Array) => problemsAs('rows.jsonl', text)

describe('rows', () => {
  it('are a system prompt, a user prompt, a label and metadata', async () => {
    const cells = {
      user_prompt: '6 × 7',
      system_prompt: 'Multiply.',
      ground_truth: '42',
      metadata: { level: 1 },
      topic: 'products',
    }
    expect(await readText(JSON.stringify(cells))).toEqual([
      {
        sourceRowIndex: 0,
        initialMessages: [
          { role: 'system', content: 'Multiply.' },
          { role: 'user', content: '6 × 7' },
        ],
        label: '42',
        metadata: { level: 1 },
        otherColumns: { topic: 'products' },
      },
    ])
  })

  it('are counted without blank lines, and end in LF, CRLF or the end of the file', async () => {
    const rows = await readText(
      '{"user_prompt":"a","label":"1"}\r\n\n  \n{"user_prompt":"b","label":"2"}',
    )
    expect(rows.map(({ sourceRowIndex, label }) => [sourceRowIndex, label])).toEqual([
      [0, '1'],
      [1, '2'],
    ])
  })

  it('may start with a byte order mark', async () => {
    const [row] = await readText('\uFEFF{"user_prompt":"a","label":"1"}\n')
    expect(row?.label).toBe('1')
  })

  it('are not split at U+2028, U+2029 or U+0085 inside a string', async () => {
    const rows = await readText('{"user_prompt":"a\u2028b\u2029c\u0085d","label":"1"}\n')
    expect(rows.map(({ initialMessages }) => initialMessages)).toEqual([
      [{ role: 'user', content: 'a\u2028b\u2029c\u0085d' }],
    ])
  })

  it('may be longer than what is read from the disk at once', async () => {
    const prompts = ['x'.repeat(200_000), '×'.repeat(100_000), 'y']
    const text = prompts.map((prompt) => JSON.stringify({ user_prompt: prompt, label: 1 }))
    const rows = await readText(`${text.join('\n')}\n`)
    expect(rows.map(({ initialMessages }) => initialMessages[0]?.content)).toEqual(prompts)
  })
})

describe('labels', () => {
  it.each([
    ['a large integer', '9007199254740993', '9007199254740993'],
    ['a large negative integer', '-123456789012345678901', '-123456789012345678901'],
    ['a float', '1.0', '1.0'],
    ['a boolean', 'true', 'true'],
    ['a list with a large integer', '[9007199254740993, "a"]', '[9007199254740993,"a"]'],
    ['an object', '{"a": 1.50}', '{"a":1.50}'],
    ['text', '"0042"', '0042'],
  ])('keep %s as it is written', async (_name, json, label) => {
    const [row] = await readText(`{"user_prompt":"a","ground_truth":${json}}`)
    expect(row?.label).toBe(label)
  })

  it.each([
    ['ground_truth before label', '"ground_truth":"g","label":"l"', 'g'],
    ['label when ground_truth is empty', '"ground_truth":"","label":"l"', 'l'],
    ['label when ground_truth is null', '"ground_truth":null,"label":0', '0'],
    ['none when both are empty', '"ground_truth":"","label":null,"metadata":{"a":1}', null],
  ])('are %s', async (_name, cells, label) => {
    const [row] = await readText(`{"user_prompt":"a",${cells}}`)
    expect(row?.label).toBe(label)
  })
})

describe('metadata', () => {
  it.each([
    ['an object', '{"a":{"b":[1.0]}}', { a: { b: [1] } }],
    ['the text of an object', '"{\\"a\\":1}"', { a: 1 }],
    ['null', 'null', null],
    ['empty text', '""', null],
    ['an empty object', '{}', null],
  ])('may be %s', async (_name, json, metadata) => {
    const [row] = await readText(`{"user_prompt":"a","metadata":${json}}`)
    expect(row?.metadata).toEqual(metadata)
  })

  it('replaces prompt and label', async () => {
    expect(await readText('{"metadata":{"task":"t"}}')).toEqual([
      {
        sourceRowIndex: 0,
        initialMessages: [],
        label: null,
        metadata: { task: 't' },
        otherColumns: {},
      },
    ])
  })
})

describe('other columns', () => {
  it('are returned by name with the types of their values', async () => {
    const others = { Id: 7, ' tags ': ['a', { b: null }], ratio: 1.5, done: false, empty: '' }
    const [row] = await readText(JSON.stringify({ user_prompt: 'a', label: '1', ...others }))
    expect(row?.otherColumns).toEqual(others)
  })

  it('are omitted where they are null', async () => {
    const [row] = await readText('{"user_prompt":"a","label":"1","id":null}')
    expect(row?.otherColumns).toEqual({})
  })

  it('may have the name of an object property', async () => {
    const [row] = await readText('{"user_prompt":"a","label":"1","__proto__":{"a":1}}')
    expect(Object.entries(row?.otherColumns ?? {})).toEqual([['__proto__', { a: 1 }]])
  })

  it.each([
    ['9007199254740991', 9007199254740991],
    ['9007199254740992', '9007199254740992'],
    ['-9007199254740993', '-9007199254740993'],
    ['1e17', 1e17],
    ['1e999', '1e999'],
    ['1.0', 1],
  ])('hold the number %s without changing it, as metadata does', async (json, value) => {
    const [row] = await readText(
      `{"user_prompt":"a","metadata":{"n":[${json}]},"other":{"n":${json}}}`,
    )
    expect([row?.metadata, row?.otherColumns]).toEqual([{ n: [value] }, { other: { n: value } }])
  })
})

describe('a bad dataset', () => {
  const good = '{"user_prompt":"a","ground_truth":"1"}'

  it.each<[string, string | Uint8Array, string[]]>([
    ['no rows', '\n\n', ['- contains no rows']],
    [
      'lines that are not objects',
      `${good}\n\n[1]\n1.0\nnull`,
      [3, 4, 5].map(
        (line) => `- line ${line}: invalid JSONL row - top-level value must be an object`,
      ),
    ],
    ['broken UTF-8', Buffer.from([0x22, 0xff, 0x22]), ['- line 1: invalid UTF-8']],
    [
      'missing columns',
      '{"prompt":"a"}\n{"prompt":"b"}',
      [
        '- missing required columns: user_prompt, ground_truth. Datasets without a metadata column must include user_prompt and ground_truth (label is accepted as an alias). Found: "prompt". If other columns have them, the rows can stay: name those columns in [columns] of a config, as prompt = "…" and label = "…".',
      ],
    ],
    [
      'rows that lack what others have',
      `${good}\n{"ground_truth":"1"}\n\n{"user_prompt":"a","label":""}`,
      [
        "- line 2: user_prompt is required for a dataset with no 'metadata' column",
        "- line 4: ground_truth (or label) is required for a dataset with no 'metadata' column",
      ],
    ],
    [
      'prompts that are not text',
      '{"user_prompt":["a"],"label":"1"}\n{"user_prompt":"a","system_prompt":{},"label":"1"}',
      [
        '- line 1: user_prompt must be text, got array; if run() makes its prompt of it, name the column as metadata',
        '- line 2: system_prompt must be text, got object; if run() makes its prompt of it, name the column as metadata',
      ],
    ],
    [
      'metadata that is not an object',
      '{"user_prompt":"a","metadata":[1]}\n{"user_prompt":"a","metadata":"1.0"}\n{"metadata":{}}',
      [
        '- line 1: metadata must be a JSON object, got array',
        '- line 2: metadata must be a JSON object, got number',
        '- line 3: has no prompt and no metadata; fill in user_prompt or metadata',
      ],
    ],
  ])('names %s', async (_name, text, problems) => {
    expect(await problemsOf(text)).toEqual(problems)
  })

  it('names the line of broken JSON, in cells too', async () => {
    expect(await problemsOf(`${good}\n{"a":`)).toEqual([
      '- line 2: invalid JSON - Unexpected end of JSON input',
    ])
    expect(await problemsOf('{"user_prompt":"a","metadata":"{"}')).toEqual([
      expect.stringMatching(/^- line 1: metadata is not valid JSON \(.+\)$/),
    ])
  })

  it('shows five problems at most', async () => {
    expect(await problemsOf('[]\n'.repeat(6))).toEqual([
      ...[1, 2, 3, 4, 5].map(
        (line) => `- line ${line}: invalid JSONL row - top-level value must be an object`,
      ),
      '... (showing first 5 errors)',
    ])
  })

  it.each([
    ['rows.json', 'got ".json". Write it as JSON Lines, one object per line.'],
    ['rows.JSON', 'got ".json". Write it as JSON Lines, one object per line.'],
    ['rows.xlsx', 'got ".xlsx". Convert it to one of these formats.'],
    ['rows', 'got no extension. Convert it to one of these formats.'],
  ])('is one in another format: %s', async (file, rest) => {
    expect(await osmosisErrorOf(() => readDataset(file))).toEqual({
      code: 'invalid_dataset',
      message: `Cannot read ${file}: datasets are .jsonl (or .ndjson), .csv or .parquet files, ${rest}`,
    })
  })

  it.each(['rows.jsonl', 'rows.csv', 'rows.parquet'])(
    'is one that is not there: %s',
    async (name) => {
      const file = join(await temporaryFolder(), name)
      expect(await osmosisErrorOf(() => readDataset(file))).toEqual({
        code: 'invalid_dataset',
        message: `Cannot read the dataset ${file}: there is no such file`,
      })
    },
  )

  it.each(['rows.jsonl', 'rows.csv', 'rows.parquet'])('is a folder: %s', async (name) => {
    const folder = await temporaryFolder({ [`${name}/file`]: '' })
    const { code, message } = await osmosisErrorOf(() => readDataset(join(folder, name)))
    expect([code, message]).toEqual([
      'invalid_dataset',
      expect.stringContaining(`Cannot read the dataset ${join(folder, name)}: `),
    ])
    expect(message).toContain('EISDIR')
  })
})

describe('a key that is there twice', () => {
  const row = (more: string): string => `{"user_prompt":"a","label":"1",${more}}\n`

  it.each([
    ['"label":"2"', 'label'],
    ['"metadata":{"level":1,"level":1}', 'metadata.level'],
    ['"metadata":{"a":{"b":[{"c":1},{"c":1,"d":{},"c":2}]}}', 'metadata.a.b.c'],
    [String.raw`"x":1,"\u0078":2`, 'x'],
    ['"x":[{"":1,"":2}]', 'x.'],
    [String.raw`"x":"\\","y":{"\"":1,"\"":1}`, String.raw`y.\"`],
    [String.raw`"metadata":"{\"a\":{\"b\":1,\"b\":2}}"`, 'metadata.a.b'],
    ['"__proto__":1,"__proto__":2', '__proto__'],
  ])('is an error with its row: %s', async (more, key) => {
    expect(await problemsOf(row('"x":0').replace('"x":0', '"z":0') + row(more))).toEqual([
      `- line 2: the key "${key}" is there twice; keep one of them`,
    ])
  })

  it('is found at any depth, and nowhere else', async () => {
    type Json = null | number | string | Json[] | { [key: string]: Json }
    const { value: json } = fc.letrec<{ value: Json }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        fc.constantFrom(null, 1, '{"a":1,"a":2}', 'a', '"', '\\', '[,:'),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom('a', 'b', '{', '"', '\\', ','), tie('value'), { maxKeys: 3 }),
      ),
    }))
    await fc.assert(
      fc.asyncProperty(json, json, fc.nat(), async (value, other, at) => {
        const text = JSON.stringify({ user_prompt: 'a', label: '1', value, other })
        expect(await readText(text)).toHaveLength(1)
        // Any key of any object may be the one that is there twice.
        const keys = [...text.matchAll(/"(?:[^"\\]|\\.)*"(?=:)/g)].filter(({ index }) =>
          isKey(text, index),
        )
        const { 0: key, index } = keys[at % keys.length] ?? { 0: '', index: 0 }
        const twice = `${text.slice(0, index)}${key}:0,${text.slice(index)}`
        const [problem] = await problemsOf(twice)
        expect(problem).toMatch(/^- line 1: the key ".*" is there twice; keep one of them$/)
        expect(problem).toContain(`${key.slice(1)} is there twice`)
      }),
      { numRuns: runs(200) },
    )
  })
})

/** Whether a text is a key: no quote is open before it. */
function isKey(json: string, at: number): boolean {
  return json.slice(0, at).replaceAll(/\\./g, '').split('"').length % 2 === 1
}
