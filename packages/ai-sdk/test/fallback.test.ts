import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { OsmosisToolLoopAgent, rolloutModel } from '@osmosis/ai-sdk'
import { type PolicyServer, startPolicyServer } from '@osmosis/testing'
import {
  defaultSettingsMiddleware,
  generateText,
  isStepCount,
  type LanguageModel,
  type ModelMessage,
  Output,
  streamText,
  ToolLoopAgent,
  wrapLanguageModel,
} from 'ai'
import { MockLanguageModelV3 } from 'ai/test'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'

import { callAdd, messagesOf, rolloutOn } from '../../../test/kit/index.ts'
import { tools } from './rollout.ts'

type ModelObject = Exclude<LanguageModel, string>

const provider = (baseURL: string) =>
  createOpenAICompatible({
    name: 'provider',
    baseURL,
    apiKey: 'key',
    supportsStructuredOutputs: true,
  })

const own = (url: string): ModelObject => provider(url)('gpt-4.1')

/** Calls the tool `add` once where it can, and then answers with JSON. */
const startModel = async (): Promise<PolicyServer> =>
  startPolicyServer((request) => {
    const isFirst = messagesOf(request).every(({ role }) => role !== 'tool')
    return isFirst && request.body['tools'] !== undefined ? callAdd : '{"sum":3}'
  })

const Sum = z.object({ sum: z.number() })

/** Programs of users, each of a model. */
const programs: Readonly<Record<string, (model: ModelObject) => Promise<unknown>>> = {
  'a text with settings': async (model) =>
    generateText({
      model,
      prompt: 'go',
      temperature: 0.5,
      maxOutputTokens: 64,
      stopSequences: ['END'],
      headers: { 'x-team': 'a' },
      providerOptions: { provider: { reasoningEffort: 'low' } },
    }),
  'tools in steps': async (model) =>
    generateText({ model, prompt: 'go', tools, stopWhen: isStepCount(5) }),
  'a stream with tools': async (model) =>
    streamText({ model, prompt: 'go', tools, stopWhen: isStepCount(5) }).consumeStream(),
  'an object': async (model) =>
    generateText({ model, prompt: 'go', output: Output.object({ schema: Sum }) }),
  'a stream of an object': async (model) =>
    streamText({ model, prompt: 'go', output: Output.object({ schema: Sum }) }).output,
  'an image': async (model) =>
    generateText({
      model,
      messages: [
        {
          role: 'user',
          content: [{ type: 'file', mediaType: 'image/png', data: 'iVBORw0KGgo=' }],
        },
      ],
    }),
  'a wrapped model': async (model) => {
    const middleware = defaultSettingsMiddleware({ settings: { temperature: 0.1 } })
    await generateText({ model: wrapLanguageModel({ model, middleware }), prompt: 'go' })
  },
  'another model for a step': async (model) =>
    generateText({
      model,
      prompt: 'go',
      tools,
      stopWhen: isStepCount(5),
      prepareStep: ({ stepNumber }) => (stepNumber === 0 ? {} : { model, toolChoice: 'none' }),
    }),
  'an agent': async (model) => new ToolLoopAgent({ model, tools }).generate({ prompt: 'go' }),
  'an agent of ours': async (model) =>
    new OsmosisToolLoopAgent({ id: 'main', model, tools, instructions: 'Add.' }).generate({
      prompt: 'go',
    }),
  'an agent that keeps its messages': async (model) => {
    const agent = new ToolLoopAgent({ model, tools })
    const messages: ModelMessage[] = [{ role: 'user', content: 'one' }]
    const { response } = await agent.generate({ messages })
    await agent.generate({
      messages: [...messages, ...response.messages, { role: 'user', content: 'two' }],
    })
  },
}

describe('outside of rollouts, a model with a fallback sends the requests of the fallback alone:', () => {
  it.each(Object.entries(programs))('%s', async (_what, program) => {
    await using server = await startModel()
    const sent = async (model: ModelObject) => {
      const before = server.requests.length
      await program(model)
      return server.requests.slice(before).map(({ body, headers }) => ({
        body,
        team: headers['x-team'],
        key: headers.authorization,
      }))
    }
    const expected = await sent(own(server.url))
    expect(expected).not.toEqual([])
    expect(await sent(rolloutModel({ fallback: () => own(server.url) }))).toEqual(expected)
  })
})

describe('a fallback is whatever model the SDK takes:', () => {
  const holder = globalThis as { AI_SDK_DEFAULT_PROVIDER?: unknown }
  afterEach(() => {
    delete holder.AI_SDK_DEFAULT_PROVIDER
  })

  it('a name that the default provider knows', async () => {
    await using server = await startModel()
    const model = rolloutModel({ fallback: 'team/large' })
    holder.AI_SDK_DEFAULT_PROVIDER = provider(server.url)
    expect((await generateText({ model, prompt: 'go' })).text).toBe('{"sum":3}')
    expect(await streamText({ model, prompt: 'go' }).text).toBe('{"sum":3}')
    expect(server.requests.map(({ body }) => body['model'])).toEqual(['team/large', 'team/large'])
    expect(model).toMatchObject({ provider: 'provider.chat', modelId: 'team/large' })
  })

  it('a name of the gateway', () => {
    expect(rolloutModel({ fallback: 'openai/gpt-4.1' })).toMatchObject({
      provider: 'gateway',
      modelId: 'openai/gpt-4.1',
    })
  })

  it('models of older versions of the interface', async () => {
    const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 }
    const content = [{ type: 'text' as const, text: 'said' }]
    const second: Extract<LanguageModel, { specificationVersion: 'v2' }> = {
      specificationVersion: 'v2',
      provider: 'old',
      modelId: 'old',
      supportedUrls: { 'image/*': [/^https:/] },
      doGenerate: async () => ({ content, finishReason: 'stop', usage, warnings: [] }),
      doStream: async () => Promise.reject(new Error('It does not stream.')),
    }
    const third = new MockLanguageModelV3({
      doGenerate: async () => ({
        content,
        finishReason: { unified: 'stop', raw: 'stop' },
        usage: {
          inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: 1, text: 1, reasoning: 0 },
        },
        warnings: [],
      }),
    })
    const warnings = vi.spyOn(console, 'info').mockImplementation(() => {})
    const emitted = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    for (const fallback of [second, third]) {
      const { text, finishReason } = await generateText({
        model: rolloutModel({ fallback }),
        prompt: 'go',
      })
      expect({ text, finishReason }).toEqual({ text: 'said', finishReason: 'stop' })
    }
    // As the SDK does for the model itself.
    expect(JSON.stringify([warnings.mock.calls, emitted.mock.calls])).toContain('v2')
    const model = rolloutModel({ fallback: second })
    const shown = { provider: model.provider, urls: await model.supportedUrls }
    expect(shown).toEqual({ provider: 'old', urls: second.supportedUrls })
  })
})

it('a model that is wrapped at the top of a module fetches what the one that answers cannot', async () => {
  await using policy = await startPolicyServer(() => 'done')
  const sent: unknown[] = []
  const url = `${new URL(policy.url).origin}/a.png`
  const fallback = new MockLanguageModelV3({
    supportedUrls: { 'image/*': [/a\.png$/] },
    doGenerate: async ({ prompt }) => {
      sent.push(JSON.stringify(prompt).includes(url))
      throw new Error('seen')
    },
  })
  const middleware = defaultSettingsMiddleware({ settings: {} })
  const model = wrapLanguageModel({ model: rolloutModel({ name: 'main', fallback }), middleware })
  const content = [{ type: 'file' as const, mediaType: 'image/png', data: new URL(url) }]
  const run = async () =>
    generateText({ model, messages: [{ role: 'user', content }], maxRetries: 0 })
  await expect(run()).rejects.toThrow('seen')
  expect(sent).toEqual([true])
  await rolloutOn(policy).run(run)
  expect(JSON.stringify(messagesOf(policy.requests[0]))).toContain(url)
})

it('a function as fallback is called once, and not where rollouts run', async () => {
  await using server = await startModel()
  await using policy = await startPolicyServer(() => 'done')
  let made = 0
  const fallback = (): LanguageModel => {
    made += 1
    return own(server.url)
  }
  const model = rolloutModel({ name: 'main', fallback })
  const agent = new OsmosisToolLoopAgent({ id: 'main', model, tools })
  const wrapped = wrapLanguageModel({ model, middleware: [] })
  await rolloutOn(policy).run(async () => {
    await agent.generate({ prompt: 'go' })
    await generateText({ model: wrapped, prompt: 'go' })
  })
  expect({ made, requests: policy.requests.length }).toEqual({ made: 0, requests: 2 })
  await agent.generate({ prompt: 'go' })
  await generateText({ model: wrapped, prompt: 'go' })
  expect(made).toBe(1)
  expect([server.requests.length, policy.requests.length]).toEqual([3, 2])
})
