import { Agent } from '@mastra/core/agent'
import type { PromptMessage } from '@osmosis/core'
import { rolloutModel, toModelMessages } from '@osmosis/mastra'
import { startPolicyServer } from '@osmosis/testing'
import { expect, it } from 'vitest'

import { messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'

const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

const prompts: Record<string, PromptMessage[]> = {
  'system messages': [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi.' },
  ],
  'what was said before': [
    { role: 'user', content: 'What is 1 + 2?' },
    {
      role: 'assistant',
      content: 'Let me see.',
      tool_calls: [
        { id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a":1,"b":2}' } },
      ],
    },
    { role: 'tool', tool_call_id: 'c1', content: '3' },
    { role: 'assistant', content: 'It is 3.' },
    { role: 'user', content: 'And with 4?' },
  ],
  'calls with arguments in a form of their own': [
    { role: 'user', content: 'What is 1 + 2?' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [
        { id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a": 1.0}' } },
      ],
    },
    { role: 'tool', tool_call_id: 'c1', content: '3' },
    { role: 'user', content: 'And?' },
  ],
  'results that name their tool': [
    { role: 'user', content: 'What is 1 + 2?' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a":1}' } }],
    },
    { role: 'tool', tool_call_id: 'c1', content: '3', name: 'add' },
    { role: 'user', content: 'And?' },
  ],
  'numbered calls': [
    { role: 'user', content: 'What is 1 + 2?' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [
        { id: 'c1', type: 'function', function: { name: 'add', arguments: '{}' }, index: 0 },
      ],
    },
    { role: 'tool', tool_call_id: 'c1', content: '3' },
    { role: 'user', content: 'And?' },
  ],
  'an image': [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${pixel}` } },
      ],
    },
  ],
  'the address of an image': [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: 'https://example.com/image.png' } },
      ],
    },
  ],
}

it.each(Object.entries(prompts))('%s of a row reach the policy as they are', async (_, prompt) => {
  const agent = new Agent({ id: 'main', name: 'M', instructions: '', model: rolloutModel('main') })
  await using server = await startPolicyServer(['fine'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => agent.generate(toModelMessages(prompt)))
  expect(messagesOf(server.requests[0])).toEqual(prompt)
  expect((await sampleOf(rollout)).messages).toHaveLength(prompt.length + 1)
})

it('settings of the model are defaults, those of a call win', async () => {
  const model = rolloutModel({
    name: 'main',
    temperature: 1,
    topK: 20,
    extraBody: { min_p: 0.1 },
    purpose: 'draft',
  })
  const agent = new Agent({ id: 'main', name: 'Main', instructions: 'Be brief.', model })
  await using server = await startPolicyServer(['fine'])
  const rollout = rolloutOn(server)
  await rollout.run(async () =>
    agent.generate('go', {
      modelSettings: { temperature: 0.5, maxOutputTokens: 100 },
      providerOptions: { osmosis: { logprobs: true } },
    }),
  )
  expect(server.requests[0]?.body).toMatchObject({
    temperature: 0.5,
    top_k: 20,
    min_p: 0.1,
    max_tokens: 100,
    logprobs: true,
  })
  expect(server.requests[0]?.headers['user-agent']).toMatch(/^mastra/)
  expect((await sampleOf(rollout)).calls).toMatchObject([{ purpose: 'draft' }])
})
