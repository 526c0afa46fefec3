import { OsmosisStrandsAgent } from '@osmosis/strands'
import { Agent } from '@strands-agents/sdk'
import { expect, test } from 'vitest'

import { testPeerRange, isNewestVersion } from '../../../test/kit/index.ts'

test('the adapter runs on the version of the SDK that this project is for', async () => {
  const sdk = (await import(
    /* @vite-ignore */ isNewestVersion() ? '@strands-agents/sdk' : '@strands-agents/sdk-lowest'
  )) as { Agent: unknown }
  expect(Agent).toBe(sdk.Agent)
  expect(Object.getPrototypeOf(OsmosisStrandsAgent)).toBe(sdk.Agent)
})

testPeerRange(import.meta.url, '@strands-agents/sdk', (lowest) => `>=${lowest} <2`)
