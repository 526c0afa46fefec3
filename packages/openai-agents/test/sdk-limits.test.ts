import { MaxTurnsExceededError, run, webSearchTool } from '@openai/agents'
import { OsmosisAgent, OsmosisMemorySession, OsmosisRolloutModel } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { rolloutOn } from '../../../test/kit/index.ts'
import { expect, test } from 'vitest'
import { z } from 'zod'

import { policyAgent } from './rollout.ts'

// What the README says of the SDK; a test that fails here means that a sentence can go.

test('hosted tools are refused before the policy is called', async () => {
  await using server = await startPolicyServer([])
  const searching = rolloutOn(server).run(async () =>
    run(policyAgent({ tools: [webSearchTool()] }), 'go', { session: new OsmosisMemorySession() }),
  )
  await expect(searching).rejects.toThrow('Hosted tools are not supported')
  expect(server.requests).toHaveLength(0)
})

test('an empty answer where structured output is due is requested again', async () => {
  await using server = await startPolicyServer(() => '')
  const structured = rolloutOn(server).run(async () => {
    const outputType = z.object({ sum: z.number() })
    const agent = new OsmosisAgent({ name: 'x', model: new OsmosisRolloutModel(), outputType })
    await run(agent, 'go', { session: new OsmosisMemorySession(), maxTurns: 3 })
  })
  await expect(structured).rejects.toBeInstanceOf(MaxTurnsExceededError)
  expect(server.requests).toHaveLength(3)
})
