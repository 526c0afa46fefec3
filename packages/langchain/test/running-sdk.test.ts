import { OsmosisChatModel } from '@osmosis/langchain'
import { expect, test } from 'vitest'

import { isNewestVersion, testPeerRange, versionIn } from '../../../test/kit/index.ts'

const lowest = 'lowest/node_modules/@langchain/core'

test('the adapter runs on the version of LangChain that this project is for', () => {
  const folder = isNewestVersion() ? '../node_modules/@langchain/core' : lowest
  // LangChain notes there which version of it a model extends.
  expect(new OsmosisChatModel().metadata).toMatchObject({
    versions: { '@langchain/core': versionIn(folder, import.meta.url) },
  })
})

testPeerRange(import.meta.url, '@langchain/core', (version) => `^${version}`, lowest)
