import { expect, test } from 'vitest'

import { readJson, versionOf } from './running-mastra.ts'

test('the two versions are the ends of the peer range', () => {
  const { peerDependencies } = readJson('../package.json') as { peerDependencies: object }
  const lowest = versionOf('@mastra/core-lowest')
  expect(peerDependencies).toEqual({ '@mastra/core': `^${lowest}` })
  expect(versionOf('@mastra/core')).not.toBe(lowest)
})
