// @module-tag nightly
import { once } from 'node:events'
import { createWriteStream, readdirSync } from 'node:fs'
import path from 'node:path'

import { readDataset } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { osmosis, temporaryFolder } from './osmosis.ts'

const texts = (at: number): string => `${at} ${'What of the weather in Paris? '.repeat(70)}`

/** Writes a file of about this many bytes, piece by piece. */
async function write(
  file: string,
  {
    bytes,
    start = '',
    end = '',
    piece,
  }: { bytes: number; start?: string; end?: string; piece: (at: number) => string },
): Promise<number> {
  const out = createWriteStream(file)
  out.write(start)
  let count = 0
  for (let size = 0; size < bytes; count += 1) {
    const text = piece(count)
    size += text.length
    if (!out.write(text)) await once(out, 'drain')
  }
  out.end(end)
  await once(out, 'finish')
  return count
}

const span = (at: number): string => {
  const messages = JSON.stringify([{ role: 'user', parts: [{ type: 'text', content: texts(at) }] }])
  const attributes = [{ key: 'gen_ai.input.messages', value: { stringValue: messages } }]
  return `${at === 0 ? '' : ','}${JSON.stringify({ traceId: `t${at}`, attributes })}`
}
const trace = (at: number): string =>
  JSON.stringify({ id: `t${at}`, name: 'n', input: texts(at), output: texts(at) })

// What was kept in memory would fill more than this.
const smallHeap = { NODE_OPTIONS: '--max-old-space-size=128' }

it.each<[string, Parameters<typeof write>[1]]>([
  ['lines', { bytes: 200e6, piece: (at) => `${trace(at)}\n` }],
  [
    'one array',
    { bytes: 200e6, start: '[', end: ']', piece: (at) => `${at === 0 ? '' : ',\n'}${trace(at)}` },
  ],
  [
    'a list in one object',
    {
      bytes: 200e6,
      start: '{"data": [',
      end: '], "more": 1}',
      piece: (at) => `${at === 0 ? '' : ','}${trace(at)}`,
    },
  ],
  [
    'one document of OpenTelemetry',
    {
      bytes: 200e6,
      start: '{"resourceSpans":[{"resource":{},"scopeSpans":[{"spans":[',
      end: '],"schemaUrl":""}]}]}',
      piece: span,
    },
  ],
])('traces do not have to fit into memory: %s', { timeout: 600_000 }, async (_name, content) => {
  const folder = temporaryFolder()
  const [file, rows] = [path.join(folder, 'traces.json'), path.join(folder, 'rows.jsonl')]
  const count = await write(file, content)
  const { code, stderr } = await osmosis(['dataset', 'from-traces', file, '-o', rows], smallHeap)
  expect([code, stderr]).toEqual([
    0,
    expect.stringContaining(`Kept      ${count.toLocaleString('en')} rows`),
  ])
  expect(readdirSync(folder).toSorted()).toEqual(['rows.jsonl', 'traces.json'])
})

it(
  'an object that is too large is left out, and the others are read',
  { timeout: 600_000 },
  async () => {
    const folder = temporaryFolder()
    const [file, rows] = [path.join(folder, 'traces.jsonl'), path.join(folder, 'rows.jsonl')]
    const large = JSON.stringify({ id: 'large', name: 'n', input: 'x'.repeat(40 * 2 ** 20) })
    await write(file, { bytes: 2, piece: (at) => `${trace(at)}\n${large}\n${trace(at + 7)}\n` })
    const { code, stderr } = await osmosis(['dataset', 'from-traces', file, '-o', rows], smallHeap)
    expect([code, stderr]).toEqual([0, expect.stringContaining('Left out  1 of more than 32 MiB')])
    expect(
      (await readDataset(rows)).map(({ initialMessages: [message] }) => message?.content[0]),
    ).toEqual(['0', '7'])
  },
)
