import { Agent } from '@mastra/core/agent'
import { causes } from '@osmosis/core'
import { rolloutModel } from '@osmosis/mastra'
import { fault, type Reply, startPolicyServer } from '@osmosis/testing'
import { beforeEach, describe, expect, it, vi } from 'vitest'

import { execute, rolloutOn } from '../../../test/kit/index.ts'

// Mastra writes every error to the console before it throws it.
beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
})

const agent = new Agent({ id: 'main', name: 'Main', instructions: '', model: rolloutModel('main') })
/** With every retry that Mastra has. */
const retrying = new Agent({
  id: 'main',
  name: 'Main',
  instructions: '',
  maxRetries: 3,
  model: [{ model: rolloutModel('main'), maxRetries: 3 }],
})

const ways = {
  generate: async () => agent.generate('go'),
  'generate with retries': async () =>
    retrying.generate('go', { modelSettings: { maxRetries: 3 } }),
  async stream() {
    const output = await agent.stream('go')
    for await (const _ of output.textStream);
  },
  async 'stream with retries'() {
    const output = await retrying.stream('go', { modelSettings: { maxRetries: 3 } })
    for await (const _ of output.textStream);
  },
  async 'a stream that is not read'() {
    const output = await agent.stream('go')
    await output.consumeStream()
  },
}

const half = 'an answer of which only half will ever arrive'
const failures: [what: string, reply: Reply, requests: number, code: string][] = [
  ['a 400', fault.status(400), 1, 'policy_http_error'],
  ['a 429 without end', fault.status(429), 3, 'policy_http_error'],
  ['half an answer', fault.on(half, { cutAfterBytes: 700 }), 1, 'policy_stream_error'],
  [
    'an error inside the answer',
    fault.on(half, { errorEvent: 'out of memory' }),
    1,
    'policy_stream_error',
  ],
]

describe.each(Object.entries(ways))('%s', (_way, run) => {
  it.each(failures)('asks no more than the rollout does and fails it after %s', async (...row) => {
    const [, reply, requests, code] = row
    await using server = await startPolicyServer(() => reply)
    const { workflow } = await execute(server, run)
    expect(workflow.failure).toMatchObject({ category: 'http_error' })
    expect(causes(workflow.failure?.cause)).toContainEqual(expect.objectContaining({ code }))
    expect(server.requests).toHaveLength(requests)
  })
})

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
