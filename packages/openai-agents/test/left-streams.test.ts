import { run } from '@openai/agents'
import { OsmosisMemorySession } from '@osmosis/openai-agents'
import { fault, startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'

import { execute } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

const words = Array.from({ length: 20_000 }, (_, index) => `word-${index}`).join(' ')

// The README says so: the adapter for the AI SDK reads such an answer to its end.
test('an answer whose reader leaves with break is stopped, and in no sample', async () => {
  await using server = await startPolicyServer([fault.on(words, { chunkBytes: 4096 })])
  const { workflow } = await execute(server, async () => {
    const session = new OsmosisMemorySession({ name: 'main' })
    const result = await run(policyAgent(), 'go', { session, stream: true })
    for await (const event of result) {
      if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') break
    }
  })
  expect(workflow.status).toBe('success')
  expect(workflow.warnings.join(' ')).toMatch(
    /no sample to grade.* a stream was not read to its end/,
  )
  expect(server.requests).toHaveLength(1)
  expect(await server.requests[0]?.closed).toBe(true)
})
