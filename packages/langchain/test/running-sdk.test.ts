import { readFileSync } from 'node:fs'

import { OsmosisChatModel } from '@osmosis/langchain'
import { expect, test } from 'vitest'

import { isNewestFramework } from './running-framework.ts'

function readJson(path: string): Record<string, unknown> {
  const text = readFileSync(new URL(path, import.meta.url), 'utf8')
  return JSON.parse(text) as Record<string, unknown>
}

const newest = readJson('../node_modules/@langchain/core/package.json')['version']
const lowest = readJson('lowest/node_modules/@langchain/core/package.json')['version']

test('the adapter runs on the version of LangChain that this project is for', () => {
  // LangChain notes there which version of it a model extends.
  expect(new OsmosisChatModel().metadata).toMatchObject({
    versions: { '@langchain/core': isNewestFramework ? newest : lowest },
  })
})

test('the two versions are the ends of the peer range', () => {
  const { peerDependencies } = readJson('../package.json')
  expect(peerDependencies).toEqual({ '@langchain/core': `^${String(lowest)}` })
  expect(newest).not.toBe(lowest)
})
