import { gzipSync, zstdCompressSync } from 'node:zlib'

import { readDataset } from '@osmosis/eval'
import { describe, expect, it } from 'vitest'

import { csv, parquet } from './dataset-files.ts'
import { problemsAs, readAs, refusalAs } from './reading.ts'

const rows = '{"user_prompt":"a","label":"1"}\n'
const large = 'x'.repeat(64 * 2 ** 20 + 1)

describe('a file that is not what its name says', () => {
  it.each([
    ['gzip', 'rows.jsonl', gzipSync(rows), 'it is compressed with gzip; decompress it'],
    ['gzip', 'rows.csv', gzipSync(rows), 'it is compressed with gzip; decompress it'],
    ['zstd', 'rows.jsonl', zstdCompressSync(rows), 'it is compressed with zstd; decompress it'],
    ['zip', 'rows.csv', Buffer.from('PK\u0003\u0004…'), 'it is a zip archive; decompress it'],
    ['bzip2', 'rows.jsonl', Buffer.from('BZh91AY…'), 'it is compressed with bzip2; decompress it'],
    [
      'xz',
      'rows.parquet',
      Buffer.from('fd377a585a000004', 'hex'),
      'it is compressed with xz; decompress it',
    ],
    [
      'a pointer of Git LFS',
      'rows.parquet',
      Buffer.from('version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n'),
      'it is a pointer of Git LFS, without the data; run git lfs pull',
    ],
  ])('is named as what it is: %s in %s', async (_, name, content, reason) => {
    expect(await refusalAs(name, content)).toBe(reason)
  })

  it.each(['.gz', '.zst', '.zip', '.bz2', '.xz'])(
    'is named by its name: rows.jsonl%s',
    async (end) => {
      await expect(readDataset(`rows.jsonl${end}`)).rejects.toThrow(
        'It is compressed: decompress it.',
      )
    },
  )
})

describe('JSON that is nested too deeply', () => {
  const deep = '['.repeat(200_000) + ']'.repeat(200_000)
  const line = `{"user_prompt":"a","label":"1","metadata":{"x":${deep}}}\n`
  const metadata = `{"x":${deep}}`
  it.each([
    ['a line of JSON', 'rows.jsonl', rows + line, 'line 2'],
    [
      'a cell of CSV',
      'rows.csv',
      csv([
        ['user_prompt', 'metadata'],
        ['a', metadata],
      ]),
      'line 2',
    ],
  ])('is a problem of its row: %s', async (_, name, content, place) => {
    expect(await problemsAs(name, content)).toEqual([
      `- ${place}: is nested too deeply to be read; write the inner part as text`,
    ])
  })
})

describe('a table that is too wide or has a cell that is too large', () => {
  const names = Array.from({ length: 10_001 }, (_, at) => `c${at}`)
  const wide =
    'there are 10,001 columns, and at most 10,000 are read; put what varies into one column of JSON, such as metadata'
  const heavy =
    'a cell of 65 MiB, and at most 64 MiB are read; store large data in files, and their names in the row'

  it('is refused for its width, once', { tags: 'slow' }, async () => {
    const cells = names.map(() => '1')
    expect(await problemsAs('rows.csv', csv([names, cells, cells]))).toEqual([`- line 1: ${wide}`])
    const columns = names.map((name) => ({ name, data: ['1'] }))
    expect(await problemsAs('rows.parquet', parquet(columns))).toEqual([`- ${wide}`])
  })

  it('is refused for the row of its cell', { tags: 'nightly' }, async () => {
    const text = csv([
      ['user_prompt', 'label'],
      ['a', '1'],
      [large, '1'],
    ])
    expect(await problemsAs('rows.csv', text)).toEqual([`- line 3: ${heavy}`])
    const columns = [
      { name: 'user_prompt', data: ['a', large] },
      { name: 'label', data: ['1', '1'] },
    ]
    // The codec that writes and reads so much in the least time.
    expect(await problemsAs('rows.parquet', parquet(columns, { codec: 'ZSTD' }))).toEqual([
      `- row 1: column "user_prompt": ${heavy}`,
    ])
  })

  it('is read up to these limits', async () => {
    const header = ['user_prompt', 'label', ...names.slice(2, 10_000)]
    const [row] = await readAs('rows.csv', csv([header, header.map(() => '1')]))
    expect(Object.keys(row?.otherColumns ?? {})).toHaveLength(9998)
  })
})
