import { isOsmosisError, type PromptMessage } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import type { PromptMessages } from '@osmosis/strands'
import { startPolicyServer } from '@osmosis/testing'
import { Message, TextBlock } from '@strands-agents/sdk'
import { describe, expect, test } from 'vitest'

import { messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

const image = {
  type: 'image_url',
  image_url: { url: 'data:image/png;base64,AAAA', detail: 'high' },
}

/** Everything a row may hold. */
const everything: PromptMessage[] = [
  { role: 'system', content: 'Be exact.' },
  { role: 'user', name: 'zoe', content: [{ type: 'text', text: 'Look: ' }, image] },
  {
    role: 'assistant',
    content: null,
    reasoning_content: 'Two tools.',
    tool_calls: [
      { id: 'a', type: 'function', function: { name: 'add', arguments: '{ "a": 1.0 }' } },
      { id: 'b', type: 'function', function: { name: 'not/valid', arguments: 'garbage' } },
    ],
  },
  { role: 'tool', tool_call_id: 'a', content: '1' },
  { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: 'no' }] },
  { role: 'developer', content: 'Answer in French.' },
  { role: 'assistant', content: [{ type: 'text', text: 'Bien.' }] },
  { role: 'user', content: 'Answer in French.' },
]

/** Their form in requests: assistant turns in the only form that chat templates accept. */
const everythingSent: ChatMessage[] = everything.map((message, index) => {
  if (index === 2) {
    const [first, second] = message['tool_calls'] as { function: object }[]
    return {
      ...message,
      tool_calls: [first, { ...second, function: { name: 'not/valid', arguments: '{}' } }],
    }
  }
  return index === 6 ? { role: 'assistant', content: 'Bien.' } : message
})

describe.each(['messages', 'input'] as const)('a prompt given as %s', (way) => {
  async function run(prompt: PromptMessages, systemPrompt?: string, answers = ['Oui.', 'Non.']) {
    await using server = await startPolicyServer(answers)
    const rollout = rolloutOn(server)
    const own = systemPrompt === undefined ? {} : { systemPrompt }
    await rollout.run(async () => {
      if (way === 'messages') {
        const agent = policyAgent({ ...own, messages: prompt })
        await agent.invoke()
        await agent.invoke('again')
      } else {
        const agent = policyAgent(own)
        await agent.invoke(prompt)
        await agent.invoke('again')
      }
    })
    return { requests: server.requests.map(messagesOf), sample: await sampleOf(rollout) }
  }

  test('is sent unchanged in every request', async () => {
    const { requests, sample } = await run(everything)
    expect(requests[0]).toEqual(everythingSent)
    expect(requests[1]).toEqual([
      ...everythingSent,
      { role: 'assistant', content: 'Oui.' },
      { role: 'user', content: 'again' },
    ])
    expect(sample.extraFields).toEqual({})
  })

  test('is in the sample, system messages too, in the form of Strands', async () => {
    const { sample } = await run(everything)
    expect(sample.messages.slice(0, 7)).toEqual([
      { role: 'system', content: [{ text: 'Be exact.' }] },
      {
        role: 'user',
        content: [
          { text: 'Look: ' },
          { image: { format: 'png', source: { url: 'data:image/png;base64,AAAA' } } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { reasoning: { text: 'Two tools.' } },
          { toolUse: { name: 'add', toolUseId: 'a', input: { a: 1 } } },
          { toolUse: { name: 'not/valid', toolUseId: 'b', input: {} } },
        ],
      },
      {
        role: 'user',
        content: [
          { toolResult: { toolUseId: 'a', status: 'success', content: [{ text: '1' }] } },
          { toolResult: { toolUseId: 'b', status: 'success', content: [{ text: 'no' }] } },
        ],
      },
      { role: 'developer', content: [{ text: 'Answer in French.' }] },
      { role: 'assistant', content: [{ text: 'Bien.' }] },
      { role: 'user', content: [{ text: 'Answer in French.' }] },
    ])
  })

  test('is merged with the own system prompt of the agent', async () => {
    const prompt = [
      { role: 'system', content: 'One.' },
      { role: 'developer', content: [{ type: 'text', text: 'Two.' }] },
      { role: 'user', content: 'go' },
    ]
    const { requests, sample } = await run(prompt, 'Own.')
    for (const messages of requests) {
      expect(messages.slice(0, 2)).toEqual([
        { role: 'system', content: 'Own.\n\nOne.\n\nTwo.' },
        { role: 'user', content: 'go' },
      ])
    }
    expect(sample.messages[0]).toEqual({ role: 'system', content: [{ text: 'One.\n\nTwo.' }] })
  })

  test('may mix with messages of Strands', async () => {
    const prompt: PromptMessages = [
      new Message({ role: 'user', content: [new TextBlock('class')] }),
      { role: 'assistant', content: [{ text: 'data' }] },
      { role: 'user', content: 'chat' },
    ]
    const { requests } = await run(prompt)
    expect(requests[0]).toEqual([
      { role: 'user', content: 'class' },
      { role: 'assistant', content: 'data' },
      { role: 'user', content: 'chat' },
    ])
  })

  test.each([
    [
      { role: 'user', content: [{ type: 'input_audio', input_audio: {} }] },
      /^messages\[1\]\.content\[0\] is a part of type "input_audio"/,
    ],
    [
      { role: 'user', content: [{ type: 'text', text: 'x' }, { type: 'file' }] },
      /^messages\[1\]\.content\[1\] is a part of type "file"/,
    ],
    [
      { role: 'user', content: [{ type: 'image_url' }] },
      /^messages\[1\]\.content\[0\] is a part of type "image_url".* image_url with a url/,
    ],
    [{ role: 'user', content: [null] }, /^messages\[1\]\.content\[0\] is a part of type undefined/],
    [
      { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'custom', custom: {} }] },
      /^messages\[1\] has a tool call of the type "custom"/,
    ],
    [
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'custom', function: null }],
      },
      /^messages\[1\] has a tool call of the type "custom"/,
    ],
    [
      { role: 'assistant', content: null, tool_calls: [null] },
      /^messages\[1\] has a tool call of the type undefined/,
    ],
    [{ role: 'critic', content: 'x' }, /^messages\[1\] has the role "critic"/],
    [{ role: 'tool', content: 'x' }, /^messages\[1\] is a tool message without a tool_call_id/],
  ])('is refused where Strands has no form for it: %j', async (message, expected) => {
    const failed = run([{ role: 'user', content: 'go' }, message])
    const error: unknown = await failed.catch((reason: unknown) => reason)
    expect(isOsmosisError(error) && error.code).toBe('invalid_request')
    expect((error as Error).message).toMatch(expected)
  })
})

test('a system message with parts other than text is refused', () => {
  const messages = [{ role: 'system', content: [image] }]
  const made = () =>
    rolloutOn({ url: 'http://policy.invalid' }).run(() => policyAgent({ messages }))
  expect(made).toThrow('messages[0].content[0] is a part of type "image_url"')
})

test('a prompt that is given again and again is one system prompt', async () => {
  await using server = await startPolicyServer(['one', 'two', 'three'])
  const prompt = [
    { role: 'system', content: 'Be exact.' },
    { role: 'user', content: 'go' },
  ]
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const agent = policyAgent({ systemPrompt: [new TextBlock('Own.')] })
    for (let n = 0; n < 3; n += 1) await agent.invoke(prompt)
  })
  expect(server.requests.map((request) => messagesOf(request)[0]?.content)).toEqual(
    Array.from({ length: 3 }, () => 'Own.\n\nBe exact.'),
  )
  expect((await sampleOf(rollout)).extraFields).toEqual({})
})

test('a message of the prompt that a plugin changed goes out changed', async () => {
  await using server = await startPolicyServer(['one'])
  await rolloutOn(server).run(async () => {
    const agent = policyAgent({ messages: [{ role: 'user', name: 'zoe', content: 'secret' }] })
    const [message] = agent.messages
    message?.content.splice(0, 1, new TextBlock('[removed]'))
    await agent.invoke()
  })
  expect(messagesOf(server.requests[0])).toEqual([{ role: 'user', content: '[removed]' }])
})

test('the images of a row are not coded again for every call', async () => {
  await using server = await startPolicyServer(['one'])
  const url = 'https://example.test/cat.jpg?size=2'
  await rolloutOn(server).run(async () => {
    const content = [{ type: 'image_url', image_url: { url } }]
    const agent = policyAgent({ messages: [{ role: 'user', content }] })
    expect(agent.messages[0]?.content).toMatchObject([
      { format: 'jpeg', source: { type: 'imageSourceUrl', url } },
    ])
    await agent.invoke()
  })
})
