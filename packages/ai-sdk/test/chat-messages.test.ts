import {
  fromChatMessages,
  OsmosisToolLoopAgent,
  rolloutModel,
  toModelMessages,
} from '@osmosis/ai-sdk'
import type { PromptMessage } from '@osmosis/core'
import { startPolicyServer } from '@osmosis/testing'
import { generateText } from 'ai'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'

import { messagesOf, rolloutOn, runs } from '../../../test/kit/index.ts'

/** The messages that reach the policy when a prompt is sent in both ways. */
async function sent(prompt: PromptMessage[]): Promise<unknown[]> {
  await using server = await startPolicyServer(['done', 'done'])
  await rolloutOn(server).run(async () => {
    await generateText({ model: rolloutModel('function'), ...fromChatMessages(prompt) })
    const agent = new OsmosisToolLoopAgent({ id: 'agent', model: rolloutModel() })
    await agent.generate({ messages: toModelMessages(prompt) })
  })
  const [first, second] = server.requests.map(messagesOf)
  expect(second).toEqual(first)
  return first ?? []
}

const user = { role: 'user', content: 'go' }
const pixel = 'data:image/png;base64,iVBORw0KGgo='
const addCall = (id: string, args: string): object => ({
  id,
  type: 'function',
  function: { name: 'add', arguments: args },
})

describe('a prompt reaches the policy unchanged', () => {
  test.each<[string, PromptMessage[]]>([
    ['a text', [user]],
    ['a system message', [{ role: 'system', content: 'Be kind.' }, user]],
    [
      'several system messages at the start',
      [{ role: 'system', content: 'Be kind.' }, { role: 'system', content: 'Be brief.' }, user],
    ],
    ['a developer message', [{ role: 'developer', content: 'Be kind.' }, user]],
    ['a system message further down', [user, { role: 'system', content: 'Now!' }, user]],
    ['names', [{ ...user, name: 'ann' }, { role: 'system', content: 'x', name: 'bob' }, user]],
    [
      'text and an image by its address',
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is it?' },
            { type: 'image_url', image_url: { url: 'https://example.com/cat' } },
            { type: 'image_url', image_url: { url: 'HTTPS://example.com', detail: 'low' } },
          ],
        },
      ],
    ],
    [
      'a single image',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: pixel } }] }],
    ],
    [
      'an image with a detail, of a user with a name',
      [
        {
          role: 'user',
          name: 'ann',
          content: [{ type: 'image_url', image_url: { url: pixel, detail: 'high' } }],
        },
      ],
    ],
    [
      'a video, sound and a document',
      [
        {
          role: 'user',
          content: [
            { type: 'video_url', video_url: { url: 'https://example.com/v.mp4' } },
            { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
            { type: 'input_audio', input_audio: { data: 'SUQz', format: 'mp3' } },
            {
              type: 'file',
              file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' },
            },
          ],
        },
      ],
    ],
    [
      'several texts',
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
      ],
    ],
    [
      'a conversation with tools',
      [
        user,
        {
          role: 'assistant',
          content: 'Adding.',
          reasoning_content: 'Hm.',
          tool_calls: [addCall('c1', '{ "a": 1.0, "b": 2 }'), addCall('c2', '{"a":1}')],
        },
        { role: 'tool', tool_call_id: 'c1', content: '3' },
        { role: 'tool', tool_call_id: 'c2', name: 'add', content: '4' },
        { role: 'assistant', content: 'It is 3.' },
        user,
      ],
    ],
    [
      'a turn of tool calls alone, and an empty one',
      [
        user,
        { role: 'assistant', content: null, tool_calls: [addCall('c1', '{}')] },
        { role: 'tool', tool_call_id: 'c1', content: '' },
        { role: 'assistant', content: '' },
        user,
      ],
    ],
    ['a refusal', [user, { role: 'assistant', content: '', refusal: 'I will not.' }, user]],
  ])('%s', async (_what, prompt) => {
    expect(await sent(prompt)).toEqual(prompt)
  })

  test('with any texts', async () => {
    const text = fc.string({ minLength: 1 })
    const conversation = fc.array(
      fc.record({
        ask: text,
        say: text,
        think: text,
        args: fc.dictionary(fc.string(), fc.jsonValue()),
      }),
      { minLength: 1, maxLength: 3 },
    )
    await fc.assert(
      fc.asyncProperty(conversation, async (rounds) => {
        const prompt = rounds.flatMap(({ ask, say, think, args }, index): PromptMessage[] => [
          { role: 'user', content: ask },
          {
            role: 'assistant',
            content: say,
            reasoning_content: think,
            tool_calls: [addCall(`c${index}`, JSON.stringify(args, null, 1))],
          },
          { role: 'tool', tool_call_id: `c${index}`, content: ask },
        ])
        expect(await sent(prompt)).toEqual(JSON.parse(JSON.stringify(prompt)))
      }),
      { numRuns: runs(25) },
    )
  })
})

test('a content of nothing but text is one string outside of user messages, and there when alone', async () => {
  const content = [{ type: 'text', text: 'a' }]
  const both = [...content, { type: 'text', text: 'b' }]
  expect(
    await sent([
      { role: 'system', content: both },
      { role: 'user', content },
      { role: 'assistant', content: both, tool_calls: [addCall('c1', '{}')] },
      { role: 'tool', tool_call_id: 'c1', content: both },
    ]),
  ).toEqual([
    { role: 'system', content: 'ab' },
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'ab', tool_calls: [addCall('c1', '{}')] },
    { role: 'tool', tool_call_id: 'c1', content: 'ab' },
  ])
})

test('thinking under its other name is sent under the one that templates know', async () => {
  const [, turn] = await sent([user, { role: 'assistant', content: 'x', reasoning: 'Hm.' }, user])
  expect(turn).toEqual({ role: 'assistant', content: 'x', reasoning_content: 'Hm.' })
})

test('malformed arguments of a row go out as an empty object', async () => {
  const [, turn] = await sent([
    user,
    { role: 'assistant', content: null, tool_calls: [addCall('c1', '{"a":')] },
    { role: 'tool', tool_call_id: 'c1', content: 'x' },
  ])
  expect(turn).toMatchObject({ tool_calls: [addCall('c1', '{}')] })
})

test('arguments of a row that are an object are those of the call', async () => {
  const call = { id: 'c1', type: 'function', function: { name: 'add', arguments: { a: 1 } } }
  const turn = { role: 'assistant', content: null, tool_calls: [call] }
  expect(toModelMessages([turn])).toEqual([
    {
      role: 'assistant',
      content: [{ type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: { a: 1 } }],
    },
  ])
  const [, asked] = await sent([user, turn, { role: 'tool', tool_call_id: 'c1', content: '1' }])
  expect(asked).toEqual({ ...turn, tool_calls: [addCall('c1', '{"a":1}')] })
})

test('plain messages carry no options', () => {
  expect(
    fromChatMessages([
      { role: 'system', content: 'Be kind.' },
      user,
      { role: 'assistant', content: 'Hi.', tool_calls: [addCall('c1', '{"a":1}')] },
      { role: 'tool', tool_call_id: 'c1', content: '1' },
    ]),
  ).toEqual({
    instructions: 'Be kind.',
    messages: [
      user,
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'Hi.' },
          { type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: { a: 1 } },
        ],
      },
      {
        role: 'tool',
        content: [
          {
            type: 'tool-result',
            toolCallId: 'c1',
            toolName: 'add',
            output: { type: 'text', value: '1' },
          },
        ],
      },
    ],
  })
})

test.each<[string, PromptMessage, RegExp]>([
  ['a role', { role: 'function', content: 'x' }, /role "function"/],
  ['a part', { role: 'user', content: [{ type: 'hologram' }] }, /"hologram" in a user message/],
  ['no part', { role: 'user', content: [null] }, /type undefined in a user message/],
  ['no part of a system message', { role: 'system', content: [null] }, /type undefined outside/],
  [
    'a call of a custom tool',
    { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'custom', custom: {} }] },
    /tool calls of the type "custom"/,
  ],
  [
    'a call whose function is null',
    { role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'custom', function: null }] },
    /tool calls of the type "custom"/,
  ],
  [
    'no call',
    { role: 'assistant', content: null, tool_calls: [null] },
    /tool calls of the type undefined/,
  ],
  [
    'an address',
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'cat' } }] },
    /"cat"/,
  ],
  [
    'an image of the assistant',
    { role: 'assistant', content: [{ type: 'image_url' }] },
    /"image_url" outside/,
  ],
  [
    'a file by its id',
    { role: 'user', content: [{ type: 'file', file: { file_id: 'x' } }] },
    /without file_data/,
  ],
  [
    'an image without its object',
    { role: 'user', content: [{ type: 'image_url' }] },
    /"image_url" without a url/,
  ],
  [
    'a video without an address',
    { role: 'user', content: [{ type: 'video_url', video_url: { url: null } }] },
    /"video_url" without a url/,
  ],
  [
    'audio without its object',
    { role: 'user', content: [{ type: 'input_audio' }] },
    /"input_audio" without data and format/,
  ],
  [
    'a file without its object',
    { role: 'user', content: [{ type: 'file', file: null }] },
    /"file" without file_data/,
  ],
])('%s that the SDK cannot represent is refused', (_what, message, said) => {
  expect(() => toModelMessages([message])).toThrow(
    expect.objectContaining({ code: 'invalid_request', message: expect.stringMatching(said) }),
  )
})
