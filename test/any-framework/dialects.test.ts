import Anthropic from '@anthropic-ai/sdk'
import { requireRolloutContext, type RolloutSample } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { createPolicyProxy, type PolicyProxy } from '@osmosis/proxy'
import { fault, startPolicyServer } from '@osmosis/testing'
import OpenAI from 'openai'
import { expect, it } from 'vitest'

import {
  answerStream,
  chunk,
  execute,
  rolloutOn,
  sampleOf,
  sendStream,
  startPolicyEndpoint,
} from '../kit/index.ts'

/** What a policy writes that no client writes again in the same way. */
const written = '{"a": 12.0,  "b": 34}'
const script = [
  {
    reasoning: 'I multiply. ',
    content: 'A moment. ',
    toolCalls: [{ id: 'call.1', name: 'multiply', arguments: written }],
  },
  { content: '408' },
]

const schema = {
  type: 'object' as const,
  properties: { a: { type: 'number' }, b: { type: 'number' } },
}

/** Runs an agent through a proxy, and returns what its second request had of the policy's first answer. */
async function repeated(
  agent: (proxy: PolicyProxy) => Promise<string>,
): Promise<{ answer: string; sent: unknown; sample: RolloutSample }> {
  await using server = await startPolicyServer(script)
  const rollout = rolloutOn(server)
  const answer = await rollout.run(async () => {
    const proxy = await createPolicyProxy(rollout.registerPolicySample('main'))
    const said = await agent(proxy)
    await proxy.close()
    return said
  })
  const messages = server.requests[1]?.body['messages'] as ChatMessage[]
  const sent = messages.find(({ role }) => role === 'assistant')
  return { answer, sent, sample: await sampleOf(rollout) }
}

const recorded = {
  role: 'assistant',
  reasoning_content: 'I multiply. ',
  content: 'A moment. ',
  tool_calls: [
    { id: 'call.1', type: 'function', function: { name: 'multiply', arguments: written } },
  ],
}

const clientOf = ({ anthropicUrl }: PolicyProxy): Anthropic =>
  new Anthropic({ baseURL: anthropicUrl, apiKey: 'unused', maxRetries: 0 })
const question = 'What is 12 times 34?'

async function withAnthropic(proxy: PolicyProxy, streams: boolean): Promise<string> {
  const client = clientOf(proxy)
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: question }]
  for (;;) {
    const request = {
      model: 'policy',
      max_tokens: 100,
      messages,
      tools: [{ name: 'multiply', input_schema: schema }],
    }
    const message = streams
      ? await client.messages.stream(request).finalMessage()
      : await client.messages.create(request)
    messages.push({ role: 'assistant', content: message.content })
    const [call] = message.content.filter(
      ({ type }) => type === 'tool_use',
    ) as Anthropic.ToolUseBlock[]
    if (call === undefined) {
      return message.content.map((block) => (block.type === 'text' ? block.text : '')).join('')
    }
    const { a, b } = call.input as { a: number; b: number }
    const result = { type: 'tool_result' as const, tool_use_id: call.id, content: String(a * b) }
    messages.push({ role: 'user', content: [result] })
  }
}

async function withResponses(
  proxy: PolicyProxy,
  { streams, byId }: { streams: boolean; byId: boolean },
): Promise<string> {
  const client = new OpenAI({ baseURL: proxy.url, apiKey: 'unused', maxRetries: 0 })
  let input: OpenAI.Responses.ResponseInputItem[] = [{ role: 'user', content: question }]
  let previous: string | undefined
  for (;;) {
    const request = {
      model: 'policy',
      input,
      tools: [{ type: 'function' as const, name: 'multiply', parameters: schema, strict: false }],
      ...(byId && previous !== undefined ? { previous_response_id: previous } : {}),
    }
    const response = streams
      ? await client.responses.stream(request).finalResponse()
      : ((await client.responses.create(request)) as OpenAI.Responses.Response)
    previous = response.id
    const call = response.output.find(
      (item): item is OpenAI.Responses.ResponseFunctionToolCall => item.type === 'function_call',
    )
    if (call === undefined) return response.output_text
    const { a, b } = JSON.parse(call.arguments) as { a: number; b: number }
    const output = {
      type: 'function_call_output' as const,
      call_id: call.call_id,
      output: String(a * b),
    }
    const said = response.output as OpenAI.Responses.ResponseInputItem[]
    input = byId ? [output] : [...input, ...said, output]
  }
}

it.each([
  ['@anthropic-ai/sdk', (proxy: PolicyProxy) => withAnthropic(proxy, false)],
  ['@anthropic-ai/sdk, streaming', (proxy: PolicyProxy) => withAnthropic(proxy, true)],
  [
    'openai with Responses',
    (proxy: PolicyProxy) => withResponses(proxy, { streams: false, byId: false }),
  ],
  [
    'openai with Responses, streaming',
    (proxy: PolicyProxy) => withResponses(proxy, { streams: true, byId: false }),
  ],
  [
    'openai with Responses and previous_response_id',
    (proxy: PolicyProxy) => withResponses(proxy, { streams: true, byId: true }),
  ],
])('%s sends back what the policy wrote, word for word', async (_, agent) => {
  const { answer, sent, sample } = await repeated(agent)
  expect(answer).toBe('408')
  expect(sent).toEqual(recorded)
  expect(sample.messages.at(-1)).toEqual({ role: 'assistant', content: '408' })
  expect(sample.extraFields).toEqual({})
})

it('errors of the policy reach both clients with their status, and are not retried', async () => {
  await using server = await startPolicyServer([fault.status(422)])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const proxy = await createPolicyProxy(rollout.policy('main'))
    const client = new Anthropic({ baseURL: proxy.anthropicUrl, apiKey: 'unused' })
    const asked = client.messages.create({
      model: 'policy',
      max_tokens: 1,
      messages: [{ role: 'user', content: 'hi' }],
    })
    await expect(asked).rejects.toMatchObject({ status: 422, type: 'api_error' })
    await proxy.close()
  })
  expect(server.requests).toHaveLength(1)
})

const hello = { role: 'user' as const, content: 'hi' }
const openAiOf = ({ url: baseURL }: PolicyProxy): OpenAI =>
  new OpenAI({ baseURL, apiKey: 'unused', maxRetries: 0 })
const toAsk = { model: 'policy', max_tokens: 9, messages: [hello] }

it.each<[api: string, ask: (proxy: PolicyProxy) => Promise<unknown>]>([
  ['Messages', async (proxy) => clientOf(proxy).messages.create(toAsk)],
  ['streamed Messages', async (proxy) => clientOf(proxy).messages.stream(toAsk).finalMessage()],
  ['chat completions', async (proxy) => openAiOf(proxy).chat.completions.create(toAsk)],
  [
    'streamed chat completions',
    async (proxy) => openAiOf(proxy).chat.completions.stream(toAsk).finalMessage(),
  ],
  [
    'Responses',
    async (proxy) => openAiOf(proxy).responses.create({ model: 'policy', input: 'hi' }),
  ],
])('an answer that breaks off behind %s fails the rollout as http_error', async (_, ask) => {
  // Also where another agent of the sample gets an answer later.
  for (const isAnsweredLater of [false, true]) {
    const policy = await startPolicyEndpoint((response, n) => {
      if (n === 2) return sendStream(response, answerStream('fine'))
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify(chunk({ content: 'hel' }))}\n\n`)
      setTimeout(() => response.destroy(), 20)
    })
    const { workflow } = await execute(policy, async () => {
      const sample = requireRolloutContext('The test').registerPolicySample('main')
      const proxy = await createPolicyProxy(sample)
      const [broken] = await Promise.allSettled([ask(proxy)])
      if (isAnsweredLater) await clientOf(proxy).messages.create(toAsk)
      if (broken.status === 'rejected') throw broken.reason
    })
    expect(workflow.failure).toMatchObject({ category: 'http_error' })
  }
})
