import { readFileSync } from 'node:fs'

import { Agent } from '@earendil-works/pi-agent-core'
import { expect, test } from 'vitest'

import { isNewestVersion, versionIn } from '../../../test/kit/index.ts'

test('the tests run on the version of Pi that their project is for', async () => {
  const pi = (await import(
    /* @vite-ignore */ isNewestVersion()
      ? '@earendil-works/pi-agent-core'
      : '@earendil-works/pi-agent-core-lowest'
  )) as { Agent: unknown }
  expect(Agent).toBe(pi.Agent)
})

test('the two versions are the ends of the peer ranges', () => {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  const { peerDependencies } = JSON.parse(text) as { peerDependencies: Record<string, string> }
  for (const name of ['@earendil-works/pi-agent-core', '@earendil-works/pi-ai']) {
    const lowest = versionIn(`../node_modules/${name}-lowest`, import.meta.url)
    expect(peerDependencies[name]).toBe(`^${lowest}`)
    expect(versionIn(`../node_modules/${name}`, import.meta.url)).not.toBe(lowest)
  }
  expect(Object.keys(peerDependencies)).toHaveLength(2)
})
