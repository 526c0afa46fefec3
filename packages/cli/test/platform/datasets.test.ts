import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { here, workIn } from '../in-process.ts'
import { json, platformUser } from './on-platform.ts'

const rows = Array.from({ length: 6 }, (_, index) => ({
  user_prompt: `What is ${index} + 1?`,
  ground_truth: String(index + 1),
}))
const jsonl = rows.map((row) => `${JSON.stringify(row)}\n`).join('')

describe('osmosis dataset validate', () => {
  it('sends no request, and needs no login', async () => {
    const { platform, osmosis } = await platformUser({ loggedIn: false })
    writeFileSync(here('sums.jsonl'), jsonl)
    const { code, stdout } = await osmosis('dataset validate sums.jsonl --json')
    expect([code, json(stdout)]).toEqual([
      0,
      {
        schema_version: 1,
        data: {
          valid: true,
          file: 'sums.jsonl',
          file_name: 'sums.jsonl',
          extension: 'jsonl',
          file_size: jsonl.length,
          errors: [],
          warnings: [],
        },
      },
    ])
    expect(platform.calls).toEqual([])
  })

  const withMetadata = (...all: unknown[]): string =>
    all.map((metadata) => `${JSON.stringify({ user_prompt: 'Why?', metadata })}\n`).join('')

  /** Rows whose metadata has this as `a`, numbers as they are written here. */
  const withA = (...all: string[]): string =>
    all.map((a) => `{"user_prompt":"Why?","metadata":{"a":${a}}}\n`).join('')

  it.each<[string, string, string]>([
    ['sums.json', jsonl, 'the platform takes .csv, .jsonl and .parquet files, got sums.json'],
    ['empty.jsonl', '', 'the file is empty'],
    ['few.csv', 'user_prompt,label\na,1\nb,2\nc,3\n', 'there are 3 rows, fewer than 4'],
    ['columns.csv', 'question,label\na,1\nb,2\nc,3\nd,4\n', 'user_prompt'],
    ['cells.csv', 'user_prompt,label\na,1\nb,2\nc,3\nd\n', 'line 5: expected 2 cells'],
    ['keys.jsonl', `${jsonl}{"user_prompt":"a","label":"1"}\n`, 'line 7: has label, user_prompt'],
    ['none.jsonl', withMetadata({ a: 1 }, { a: 2 }, {}, { a: 4 }), 'row 2: metadata must be'],
    [
      'types.jsonl',
      withMetadata({ a: 1 }, { a: 2 }, { a: 'x' }, { a: 4 }),
      'row 2: metadata.a is of type string, and of type number above',
    ],
    [
      'nested.jsonl',
      withMetadata({ a: { b: 1 } }, { a: {} }, { a: { b: 1 } }, { a: { b: 1 } }),
      'row 1: metadata.a is an empty object',
    ],
    [
      'large.jsonl',
      withA('1', '9223372036854775807', '9223372036854775808', '2'),
      'row 2: metadata.a is 9223372036854775808, which is not a 64-bit integer',
    ],
    [
      'deep.jsonl',
      withA('[{"b":1}]', '[{"b":-9223372036854775809}]', '[]', '[]'),
      'row 1: metadata.a[].b is -9223372036854775809, which',
    ],
    [
      'text.jsonl',
      withA('1', '"9007199254740993"', '2', '3'),
      'row 1: metadata.a is of type string',
    ],
  ])('says what is wrong with %s', async (file, content, problem) => {
    const { osmosis } = await platformUser()
    writeFileSync(here(file), content)
    const { code, stdout } = await osmosis(`dataset validate ${file}`)
    expect([code, stdout]).toEqual([1, expect.stringContaining(`- `)])
    expect(stdout).toContain(problem)
  })

  it('says where columns with other names are checked', async () => {
    const { osmosis } = await platformUser({ loggedIn: false })
    writeFileSync(here('rows.jsonl'), '{"question":"a","expect":"b"}\n'.repeat(4))
    const { code, stdout } = await osmosis('dataset validate rows.jsonl')
    const said = stdout.replaceAll(/\s+/g, ' ')
    expect([code, said]).toEqual([1, expect.stringContaining('Found: "question", "expect".')])
    expect(said).toContain('warning: The platform reads no [columns] of a config')
  })

  it.each([
    [
      'integers of 64 bits',
      ['1', '9223372036854775807', '-9223372036854775808', '9007199254740993'],
    ],
    ['floats', ['1e30', '1.5', '1e3', '0']],
    ['text that looks like an integer', ['"1"', '"9223372036854775808"', '"x"', '""']],
    ["Unicode's separators of lines", ['"a\u2028b"', '"a\u2029b"', '"a\u0085b"', '"a"']],
  ])('takes %s in metadata', async (_, values) => {
    const { osmosis } = await platformUser({ loggedIn: false })
    writeFileSync(here('rows.jsonl'), withA(...values))
    const { code, stdout } = await osmosis('dataset validate rows.jsonl')
    expect([code, stdout]).toEqual([0, 'rows.jsonl is a valid dataset.\n'])
  })
})

describe('osmosis dataset upload', () => {
  it.each([undefined, 100])('sends the bytes of the file, in parts of %s', async (partSize) => {
    const { platform, osmosis } = await platformUser()
    platform.datasets.partSize = partSize
    writeFileSync(here('sums.jsonl'), jsonl)
    const { code, stdout, stderr } = await osmosis('dataset upload sums.jsonl --json')

    const [dataset] = platform.datasets.list
    expect([code, stderr]).toEqual([0, ''])
    expect(json(stdout)).toMatchObject({
      status: 'success',
      operation: 'dataset.upload',
      resource: { id: dataset?.id, file_name: 'sums', status: 'processing' },
      git: { identity: 'acme/lab' },
    })
    expect(platform.datasets.contents.get(String(dataset?.id))?.toString()).toBe(jsonl)
    expect(platform.requests[0]?.body).toStrictEqual({
      file_name: 'sums',
      file_size: jsonl.length,
      extension: 'jsonl',
    })
    const puts = platform.requests.filter(({ method }) => method === 'PUT')
    expect(puts).toHaveLength(partSize === undefined ? 1 : Math.ceil(jsonl.length / partSize))
    for (const { headers } of puts) expect(headers).not.toHaveProperty('authorization')
    expect(stdout).not.toContain('planted-signature')
  })

  it('sends a part again that the storage did not take', async () => {
    const { platform, osmosis } = await platformUser()
    platform.datasets.storageFailures = [503]
    writeFileSync(here('sums.jsonl'), jsonl)
    const { code, stdout } = await osmosis('dataset upload sums.jsonl')
    expect([code, stdout]).toEqual([0, expect.stringContaining('\nView: http')])
    expect(platform.calls.filter((call) => call.startsWith('PUT'))).toHaveLength(2)
  })

  it('gives an upload up that the storage refuses, and shows no signature', async () => {
    const { platform, osmosis } = await platformUser()
    platform.datasets.storageFailures = [403]
    writeFileSync(here('sums.jsonl'), jsonl)
    const { code, stderr } = await osmosis('dataset upload sums.jsonl --json')
    expect([code, json(stderr)]).toMatchObject([
      1,
      { error: { code: 'PLATFORM_ERROR', details: { status_code: 403 } } },
    ])
    expect(stderr).not.toContain('planted-signature')
    expect(platform.datasets.aborted).toHaveLength(1)
    expect(platform.datasets.list).toEqual([])
  })

  it('replaces a dataset only when that is said', async () => {
    const { platform, osmosis } = await platformUser()
    const { id } = platform.datasets.add('sums', 'old')
    writeFileSync(here('sums.jsonl'), jsonl)
    const { code, stderr } = await osmosis('dataset upload sums.jsonl --json')
    expect([code, json(stderr)]).toMatchObject([
      1,
      { error: { code: 'CONFLICT', details: { existing_dataset_id: id } } },
    ])
    const asked = await osmosis('dataset upload sums.jsonl --overwrite --json')
    expect(json(asked.stderr)).toMatchObject({ error: { code: 'INTERACTIVE_REQUIRED' } })
    expect((await osmosis('dataset upload sums.jsonl --overwrite --yes')).code).toBe(0)
    expect(platform.requests.at(-3)?.body).toMatchObject({ overwrite_dataset_id: id })
    expect(platform.datasets.list).toHaveLength(1)
  })

  it('sends nothing of a file that is not valid', async () => {
    const { platform, osmosis } = await platformUser()
    writeFileSync(here('sums.jsonl'), '{}\n')
    const { code, stderr } = await osmosis('dataset upload sums.jsonl --json')
    expect([code, json(stderr)]).toMatchObject([2, { error: { code: 'VALIDATION' } }])
    expect(platform.calls).toEqual([])
  })
})

describe('osmosis dataset', () => {
  it('lists names that would control a terminal, as data', async () => {
    const { platform, osmosis } = await platformUser()
    const name = 'a\u009B31mb\u202Ec\u007F'
    platform.datasets.add(name, '')
    const { stdout } = await osmosis('dataset list --json')
    expect(stdout).not.toMatch(/[^\P{Cc}\n]|\p{Cf}/u)
    expect(json(stdout)).toMatchObject({ items: [{ file_name: name }] })
  })

  it('lists page by page, or all of it', async () => {
    const { platform, osmosis } = await platformUser()
    for (let index = 0; index < 120; index += 1) platform.datasets.add(`set-${index}`, '')
    const first = json((await osmosis('dataset list --limit 2 --offset 1 --json')).stdout)
    expect(first).toMatchObject({
      schema_version: 1,
      items: [{ file_name: 'set-1' }, { file_name: 'set-2' }],
      total_count: 120,
      has_more: true,
      next_offset: 3,
    })
    const all = json((await osmosis('dataset list --all --json')).stdout)
    expect(all).toMatchObject({ has_more: false, next_offset: null })
    expect(all['items']).toHaveLength(120)
    expect((await osmosis('dataset list --limit 1')).stdout).toMatch(
      /^NAME +STATUS +ROWS +BYTES +CREATED +ID\nset-0 +uploaded +0 +2026-\S+ +dataset-\S+\n$/,
    )
    expect((await osmosis('dataset list --all --limit 3')).code).toBe(2)
    expect((await osmosis('dataset list --limit 51')).code).toBe(2)
  })

  it('shows what is known of a dataset, and its first rows', async () => {
    const { platform, osmosis } = await platformUser()
    platform.datasets.add('sums', jsonl, { data_preview: rows })
    const info = json((await osmosis('dataset info sums --json')).stdout)
    expect(info).toMatchObject({ data: { file_name: 'sums', status: 'uploaded' } })
    const preview = json((await osmosis('dataset preview sums --json')).stdout)
    expect(preview).toMatchObject({ data: { rows: rows.slice(0, 5), returned_rows: 5 } })
    const short = json((await osmosis('dataset preview sums --rows 2 --json')).stdout)
    expect(short).toMatchObject({
      data: { dataset: { file_name: 'sums' }, rows: rows.slice(0, 2) },
    })
    expect((await osmosis('dataset preview sums')).stdout).toContain('ground_truth  1\n')
    const none = await osmosis('dataset info nothing --json')
    expect([none.code, json(none.stderr)]).toMatchObject([1, { error: { code: 'NOT_FOUND' } }])
  })

  it('downloads a dataset to a file that is not there', async () => {
    const { platform, osmosis } = await platformUser()
    platform.datasets.add('sums', jsonl)
    const { code, stdout } = await osmosis('dataset download sums')
    expect([code, stdout]).toEqual([0, 'Downloaded to sums.jsonl.\n'])
    expect(readFileSync(here('sums.jsonl'), 'utf8')).toBe(jsonl)
    const again = await osmosis('dataset download sums --json')
    expect([again.code, json(again.stderr)]).toMatchObject([1, { error: { code: 'CONFLICT' } }])
    expect((await osmosis('dataset download sums --overwrite')).code).toBe(0)
    expect((await osmosis('dataset download sums -o data')).stdout).toBe(
      `Downloaded to ${path.join('data', 'sums.jsonl')}.\n`,
    )
  })

  it('leaves no file of a download that fails, and downloads only what is uploaded', async () => {
    const { platform, osmosis } = await platformUser()
    platform.datasets.add('sums', jsonl)
    platform.datasets.add('early', jsonl, { status: 'processing' })
    platform.datasets.storageFailures = [500]
    const { code, stderr } = await osmosis('dataset download sums')
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^error: The storage .* 500\.\n$/)])
    expect(existsSync(here('sums.jsonl'))).toBe(false)
    const early = await osmosis('dataset download early --json')
    expect(json(early.stderr)).toMatchObject({ error: { code: 'VALIDATION' } })
  })

  it('shows the log, and the cursor for more', async () => {
    const { platform, osmosis } = await platformUser()
    platform.datasets.add('sums', jsonl)
    platform.datasets.logs.push(
      { timestamp: '10:00', level: 'info', step: 'parse', message: 'six rows' },
      { timestamp: '10:01', level: 'info', step: 'store', message: 'done' },
    )
    const { stdout, stderr } = await osmosis('dataset logs sums --limit 1')
    expect([stdout, stderr]).toEqual([
      '10:00  info  parse  six rows\n',
      'There is more: --cursor 1\n',
    ])
    const rest = json((await osmosis('dataset logs sums --cursor 1 --json')).stdout)
    expect(rest).toMatchObject({ items: [{ message: 'done' }], next_cursor: null })
  })

  it('needs a login before a workspace, and a workspace before the platform', async () => {
    const out = await platformUser({ loggedIn: false })
    expect(json((await out.osmosis('dataset list --json')).stderr)).toMatchObject({
      error: { code: 'AUTH_REQUIRED' },
    })
    const { platform, osmosis, home } = await platformUser()
    workIn(home)
    expect(json((await osmosis('dataset list --json')).stderr)).toMatchObject({
      error: { code: 'WORKSPACE_REQUIRED' },
    })
    expect([...out.platform.calls, ...platform.calls]).toEqual([])
    const named = await osmosis('--workspace lab dataset list --json')
    expect(json(named.stdout)).toMatchObject({ items: [], workspace: { name: 'lab' } })
    expect(platform.requests[0]?.headers).not.toHaveProperty('x-osmosis-git')
  })
})
