import { ChatOpenAI } from '@langchain/openai'
import { requireRolloutContext } from '@osmosis/core'
import { fault, startPolicyServer } from '@osmosis/testing'
import OpenAI, { type ClientOptions } from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { expect, it } from 'vitest'
import { z } from 'zod'

import { execute, rolloutOn, sampleOf } from '../kit/index.ts'

const messages = [{ role: 'user' as const, content: 'go' }]

function openaiClient(options: ClientOptions = {}): OpenAI {
  const { baseUrl, fetch } = requireRolloutContext('The agent').registerPolicySample('main')
  return new OpenAI({ baseURL: baseUrl, fetch, apiKey: 'unused', ...options })
}

function langChainModel(options: { maxRetries?: number; streamUsage?: boolean } = {}): ChatOpenAI {
  const { baseUrl, fetch } = requireRolloutContext('The agent').registerPolicySample('main')
  const configuration = { baseURL: baseUrl, fetch }
  return new ChatOpenAI({ model: 'gpt-4.1', apiKey: 'unused', configuration, ...options })
}

it('the openai client does not ask again what the policy refused, whatever its retries are', async () => {
  await using server = await startPolicyServer(() => fault.status(400))
  const { workflow } = await execute(server, async () =>
    openaiClient({ maxRetries: 5 }).chat.completions.create({ model: 'gpt-4.1', messages }),
  )
  expect(workflow).toMatchObject({
    failure: { category: 'http_error', message: expect.stringContaining('answered 400') },
  })
  expect(server.requests).toHaveLength(1)
})

it('the time limit of the openai client ends a call, and its retries ask again', async () => {
  await using server = await startPolicyServer(() => fault.hang('headers'))
  let asked = 0
  const ask = async (maxRetries: number): Promise<unknown> => {
    const { baseUrl, fetch: policy } =
      requireRolloutContext('The agent').registerPolicySample('main')
    const fetch: typeof globalThis.fetch = async (...call) => {
      asked += 1
      return policy(...call)
    }
    const client = new OpenAI({ baseURL: baseUrl, fetch, apiKey: 'k', timeout: 20, maxRetries })
    return client.chat.completions.create({ model: 'gpt-4.1', messages })
  }
  const { workflow } = await execute(server, async () => ask(0))
  expect(workflow?.failure?.message).toMatch(/^thrown by run\(\) .*: Request timed out\.$/)
  expect(asked).toBe(1)
  await execute(server, async () => ask(1))
  expect(asked).toBe(3)
})

it('a model of LangChain asks again after an answer that broke off, unless it has no retries', async () => {
  const broken = fault.on('an answer of which half will arrive', { cutAfterBytes: 500 })
  await using server = await startPolicyServer([broken, 'another', broken])
  const again = await execute(server, async () => langChainModel({ maxRetries: 1 }).invoke('go'))
  expect(again.workflow.status).toBe('success')
  const once = await execute(server, async () => langChainModel({ maxRetries: 0 }).invoke('go'))
  expect(once.workflow).toMatchObject({ failure: { category: 'http_error' } })
  expect(server.requests).toHaveLength(3)
})

it('other routes than chat completions are refused with a sentence', async () => {
  await using server = await startPolicyServer(['done'])
  await rolloutOn(server).run(async () => {
    const client = openaiClient({ maxRetries: 0 })
    const refusal = { cause: { message: expect.stringContaining('POST …/chat/completions only') } }
    await expect(client.responses.create({ model: 'gpt', input: 'go' })).rejects.toMatchObject(
      refusal,
    )
    await expect(client.models.list()).rejects.toMatchObject(refusal)
  })
  expect(server.requests).toHaveLength(0)
})

const answer = z.object({ number: z.number() })
const structured = {
  async openai(): Promise<unknown> {
    const { choices } = await openaiClient().chat.completions.parse({
      model: 'gpt-4.1',
      messages,
      response_format: zodResponseFormat(answer, 'answer'),
    })
    return choices[0]?.message.parsed
  },
  async 'LangGraph.js'(): Promise<unknown> {
    return langChainModel().withStructuredOutput(answer, { name: 'answer' }).invoke('go')
  },
}

it.each(Object.entries(structured))('structured outputs of %s reach the policy', async (_, run) => {
  await using server = await startPolicyServer(['{ "number": 7.0 }'])
  const rollout = rolloutOn(server)
  expect(await rollout.run(run)).toEqual({ number: 7 })
  expect(server.requests[0]?.body['response_format']).toMatchObject({
    type: 'json_schema',
    json_schema: { schema: { properties: { number: { type: 'number' } } } },
  })
  const { trajectoryMessages } = await sampleOf(rollout)
  expect(trajectoryMessages?.at(-1)).toEqual({ role: 'assistant', content: '{ "number": 7.0 }' })
})

const streams = {
  async openai(): Promise<void> {
    const chunks = await openaiClient().chat.completions.create({
      model: 'gpt-4.1',
      messages,
      stream: true,
    })
    for await (const _ of chunks);
  },
  async 'LangGraph.js'(): Promise<void> {
    const model = langChainModel({ streamUsage: false })
    for await (const _ of await model.stream('go'));
  },
}

it.each(Object.entries(streams))(
  'streams of %s are recorded with usage that the client did not request',
  async (_, run) => {
    await using server = await startPolicyServer(['streamed'])
    const rollout = rolloutOn(server)
    await rollout.run(run)
    expect(server.requests[0]?.body['stream_options']).toEqual({ include_usage: true })
    const { calls, messages: said } = await sampleOf(rollout)
    expect(calls).toMatchObject([{ error: null, usage: { total_tokens: expect.any(Number) } }])
    expect(JSON.stringify(said)).toContain('streamed')
  },
)
