import { run } from '@openai/agents'
import { OsmosisMemorySession } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'

import { isNewestVersion, rolloutOn, testPeerRange, versionIn } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

const sdk = isNewestVersion() ? '@openai/agents' : '@openai/agents-lowest'

test('the adapter runs on the version of the SDK that this project is for', async () => {
  await using server = await startPolicyServer(['hi'])
  await rolloutOn(server).run(async () =>
    run(policyAgent(), 'hello', { session: new OsmosisMemorySession() }),
  )
  expect(server.requests[0]?.headers['user-agent']).toBe(
    `Agents/JavaScript ${versionIn(`../node_modules/${sdk}`, import.meta.url)}`,
  )
})

testPeerRange(import.meta.url, '@openai/agents', (lowest) => `>=${lowest} <1`)
