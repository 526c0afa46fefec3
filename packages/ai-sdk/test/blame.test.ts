import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { rolloutModel } from '@osmosis/ai-sdk'
import { fault, startPolicyServer } from '@osmosis/testing'
import {
  extractReasoningMiddleware,
  generateText,
  jsonSchema,
  NoObjectGeneratedError,
  NoSuchToolError,
  Output,
  streamText,
  tool,
  type ToolSet,
  wrapLanguageModel,
} from 'ai'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'

import { blame, isNewestVersion } from '../../../test/kit/index.ts'

// The first versions of the SDK take a text for the answer where a call is required.
const isOld = !isNewestVersion()

const output = Output.object({ schema: z.object({ sum: z.number() }) })
const tools: ToolSet = { add: tool({ inputSchema: jsonSchema<object>({ type: 'object' }) }) }
const ask = async () => generateText({ model: rolloutModel('main'), prompt: 'go' })

/** Runs with a model of a provider that gives this reply, after the policy gave a good answer. */
async function afterGoodAnswer(
  reply: Parameters<typeof startPolicyServer>[0],
  run: (model: ReturnType<ReturnType<typeof createOpenAICompatible>>) => Promise<unknown>,
): Promise<string> {
  await using provider = await startPolicyServer(reply)
  const model = createOpenAICompatible({
    name: 'provider',
    baseURL: provider.url,
    supportsStructuredOutputs: true,
  })('gpt-4.1')
  return await blame(['good'], async () => {
    await ask()
    await run(model)
  })
}

describe('the policy is blamed for', () => {
  it.each([
    ['an answer that is no JSON', 'no JSON'],
    ['an answer of another form', '{"sum":"three"}'],
    ['an object that the token limit cut', { content: '{"sum":', finishReason: 'length' }],
  ])('%s', async (_what, reply) => {
    const model = () => rolloutModel('main')
    const whole = async () => (await generateText({ model: model(), prompt: 'go', output })).output
    expect(await blame([reply], whole)).toBe('model_error: output')
    const streamed = async () => streamText({ model: model(), prompt: 'go', output }).output
    expect(await blame([reply], streamed)).toBe('model_error: output')
  })

  it('an answer that a middleware takes the thinking from', async () => {
    const middleware = extractReasoningMiddleware({ tagName: 'think' })
    const model = wrapLanguageModel({ model: rolloutModel('main'), middleware })
    const run = async () => (await generateText({ model, prompt: 'go', output })).output
    expect(await blame(['<think>hm</think>no JSON'], run)).toBe('model_error: output')
  })

  it.skipIf(isOld)('a text where a call is required', async () => {
    const run = async () =>
      generateText({ model: rolloutModel('main'), prompt: 'go', tools, toolChoice: 'required' })
    expect(await blame(['no call'], run)).toBe('model_error: tool_call')
  })

  it('an answer without an id', async () => {
    const event = (fields: object) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, ...fields }] })}\n\n`
    const reply = fault.raw(
      `${event({ delta: { content: 'no JSON' } })}${event({ delta: {}, finish_reason: 'stop' })}data: [DONE]\n\n`,
    )
    const run = async () =>
      (await generateText({ model: rolloutModel('main'), prompt: 'go', output })).output
    expect(await blame([reply], run)).toBe('model_error: output')
  })
})

describe('the policy is not blamed for', () => {
  it('an object or a missing output of another model', async () => {
    const run = async (model: Parameters<typeof generateText>[0]['model']) =>
      (await generateText({ model, prompt: 'go', output })).output
    expect(await afterGoodAnswer(['no JSON'], run)).toBe('failure')
    expect(await afterGoodAnswer([{ content: '{"sum":', finishReason: 'length' }], run)).toBe(
      'failure',
    )
    // Word for word what the policy said.
    expect(await afterGoodAnswer(['good'], run)).toBe('failure')
  })

  it.skipIf(isOld)('a missing call of another model', async () => {
    const required = async (model: Parameters<typeof generateText>[0]['model']) =>
      generateText({ model, prompt: 'go', tools, toolChoice: 'required' })
    expect(await afterGoodAnswer(['no call'], required)).toBe('failure')
  })

  it('errors of the SDK that the program makes', async () => {
    const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 } as never
    const response = { id: 'mine', timestamp: new Date(), modelId: 'mine' }
    for (const error of [
      new NoObjectGeneratedError({ text: 'good', response, usage, finishReason: 'stop' }),
      new NoSuchToolError({ toolName: 'add' }),
    ]) {
      const run = async () => {
        await ask()
        throw new Error('wrapped', { cause: error })
      }
      expect(await blame(['good'], run)).toBe('failure')
    }
  })

  it('a class of the program with a known name', async () => {
    for (const name of ['AI_NoObjectGeneratedError', 'AI_NoOutputGeneratedError']) {
      const run = async () => {
        await ask()
        throw Object.assign(new Error('x'), { name })
      }
      expect(await blame([{ content: 'cut', finishReason: 'length' }], run)).toBe('failure')
    }
  })
})
