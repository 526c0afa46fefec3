import { Agent } from '@mastra/core/agent'
import { rolloutModel } from '@osmosis/mastra'
import { fault, startPolicyServer } from '@osmosis/testing'
import { execute, rolloutOn } from '../../../test/kit/index.ts'
import { beforeEach, expect, it, vi } from 'vitest'

// Mastra writes every error to the console before it throws it.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
})

const agent = new Agent({ id: 'main', name: 'Main', instructions: '', model: rolloutModel('main') })

it('a stream that fails ends like an empty answer, and the rollout fails', async () => {
  await using server = await startPolicyServer(() => fault.status(400))
  let said: string | undefined
  const { workflow } = await execute(server, async () => {
    said = ''
    for await (const text of (await agent.stream('go')).textStream) said += text
  })
  expect(said).toBe('')
  expect(workflow).toMatchObject({
    failure: { category: 'http_error', message: expect.stringContaining('answered 400') },
  })
})

it('a stream is recorded with usage that was not requested', async () => {
  await using server = await startPolicyServer(['streamed'])
  const rollout = rolloutOn(server)
  const usage = await rollout.run(async () => {
    const output = await agent.stream('go')
    await output.consumeStream()
    return output.usage
  })
  expect(usage).toMatchObject({ inputTokens: expect.any(Number), outputTokens: expect.any(Number) })
  const sample = (await rollout.getSamples()).get('main')
  expect(sample?.calls).toMatchObject([
    { error: null, usage: { total_tokens: expect.any(Number) } },
  ])
})
