import { run } from '@openai/agents'
import { OsmosisMemorySession } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { rolloutOn } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'

import { policyAgent } from './rollout.ts'
import { readJson, sdkVersion, versionOf } from './running-sdk.ts'

test('the adapter runs on the version of the SDK that this project is for', async () => {
  await using server = await startPolicyServer(['hi'])
  await rolloutOn(server).run(async () =>
    run(policyAgent(), 'hello', { session: new OsmosisMemorySession() }),
  )
  expect(server.requests[0]?.headers['user-agent']).toBe(`Agents/JavaScript ${sdkVersion}`)
})

test('the two versions are the ends of the peer range', () => {
  const { peerDependencies } = readJson('../package.json') as { peerDependencies: object }
  const lowest = versionOf('@openai/agents-lowest')
  expect(peerDependencies).toEqual({ '@openai/agents': `>=${lowest} <1` })
  expect(versionOf('@openai/agents')).not.toBe(lowest)
})
