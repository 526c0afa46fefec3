import { Agent } from '@strands-agents/sdk'
import { OsmosisStrandsAgent } from '@osmosis/strands'
import { expect, test } from 'vitest'

import { readJson, sdkPackage, versionOf } from './running-sdk.ts'

test('the adapter runs on the version of the SDK that this project is for', async () => {
  const sdk = (await import(/* @vite-ignore */ sdkPackage)) as { Agent: unknown }
  expect(Agent).toBe(sdk.Agent)
  expect(Object.getPrototypeOf(OsmosisStrandsAgent)).toBe(sdk.Agent)
})

test('the two versions are the ends of the peer range', () => {
  const { peerDependencies } = readJson('../package.json') as { peerDependencies: object }
  const lowest = versionOf('@strands-agents/sdk-lowest')
  expect(peerDependencies).toEqual({ '@strands-agents/sdk': `>=${lowest} <2` })
  expect(versionOf('@strands-agents/sdk')).not.toBe(lowest)
})
