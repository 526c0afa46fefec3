import { writeFileSync } from 'node:fs'
import path from 'node:path'

import { platformProblems, readDataset, readWorkspaceConfig } from '@osmosis/eval'
import { expect, it } from 'vitest'

import { temporaryFolder } from '../kit/index.ts'
import { blocksOf, documents, type Block } from './documents.ts'

const all = (...languages: string[]): [string, Block][] =>
  documents
    .flatMap((document) => blocksOf(document, ...languages))
    .map((block) => [`${block.document}:${block.line}`, block])

const isConfig = ([, { text }]: [string, Block]): boolean => text.includes('[experiment]')

it.each(all('toml').filter(isConfig))('the platform takes the config of %s', (_, { text }) => {
  const kind = text.includes('[training]') ? 'training' : 'eval'
  expect(platformProblems(kind, text)).toEqual([])
})

it.each(all('toml').filter((block) => !isConfig(block)))(
  'a workspace takes the osmosis.toml of %s',
  async (_, { text }) => {
    const folder = await temporaryFolder()
    writeFileSync(path.join(folder, 'osmosis.toml'), text)
    expect(await readWorkspaceConfig(folder)).toBeDefined()
  },
)

// Logs of other programs are rows only after a program of the page has read them.
const isDataset = ([, { file }]: [string, Block]): boolean => file?.startsWith('logs/') !== true

it.each(all('jsonl', 'csv').filter(isDataset))(
  'the rows of %s are a dataset',
  async (_, { language, text }) => {
    const file = path.join(await temporaryFolder(), `rows.${language}`)
    writeFileSync(file, text)
    expect(await readDataset(file)).not.toHaveLength(0)
  },
)

it.each(all('json'))('the JSON of %s can be read', (_, { text }) => {
  expect(JSON.parse(text)).toBeTypeOf('object')
})
