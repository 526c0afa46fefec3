import { type AgentInputItem, run } from '@openai/agents'
import type { PromptMessage } from '@osmosis/core'
import type { ChatMessage } from '@osmosis/core/policy'
import { OsmosisMemorySession, toAgentInput } from '@osmosis/openai-agents'
import { startPolicyServer } from '@osmosis/testing'
import { describe, expect, test } from 'vitest'

import { execute, messagesOf } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

/** What the policy is asked with when `prompt` is handed on as it is. */
async function askedWith(prompt: PromptMessage[]): Promise<ChatMessage[]> {
  await using server = await startPolicyServer(['done'])
  const { workflow } = await execute(
    server,
    async ({ prompt: given }) => run(policyAgent(), given, { session: new OsmosisMemorySession() }),
    { prompt },
  )
  expect(workflow.failure).toBeNull()
  return messagesOf(server.requests[0])
}

describe('a prompt arrives at the policy as it is in the data set', () => {
  test.each<[string, PromptMessage[]]>([
    ['one question', [{ role: 'user', content: 'hello' }]],
    [
      'a system prompt',
      [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'hello' },
      ],
    ],
    [
      'a conversation',
      [
        { role: 'user', content: 'one' },
        { role: 'assistant', content: 'two' },
        { role: 'user', content: 'three' },
      ],
    ],
    [
      'tool calls',
      [
        { role: 'user', content: 'go' },
        {
          role: 'assistant',
          content: 'Adding.',
          tool_calls: [
            { id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a": 1.0}' } },
            { id: 'c2', type: 'function', function: { name: 'add', arguments: '{}' } },
          ],
        },
        { role: 'tool', tool_call_id: 'c1', content: '1' },
        { role: 'tool', tool_call_id: 'c2', content: '0' },
        { role: 'assistant', content: null, tool_calls: [call('c3')] },
        { role: 'tool', tool_call_id: 'c3', content: '2' },
      ],
    ],
    [
      'text parts',
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'one' },
            { type: 'text', text: 'two' },
          ],
        },
      ],
    ],
    [
      'an image with its detail',
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'what is it?' },
            { type: 'image_url', image_url: { url: 'https://x.test/a.png', detail: 'low' } },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
          ],
        },
      ],
    ],
    [
      'audio and files',
      [
        {
          role: 'user',
          content: [
            { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
            { type: 'file', file: { file_data: 'data:text/plain;base64,AAAA', filename: 'a.txt' } },
            { type: 'file', file: { file_id: 'file-1' } },
          ],
        },
      ],
    ],
    [
      'names',
      [
        { role: 'system', content: 'Be brief.', name: 'rules' },
        { role: 'user', content: 'hello', name: 'ada' },
      ],
    ],
    [
      'a refusal',
      [
        { role: 'user', content: 'one' },
        { role: 'assistant', content: null, refusal: 'No.' },
        { role: 'user', content: 'two' },
      ],
    ],
  ])('%s', async (_what, prompt) => {
    expect(await askedWith(prompt)).toEqual(prompt)
  })

  test('with thinking under both of its names', async () => {
    const turn = { role: 'assistant', content: 'Three.', reasoning_content: 'Add.' }
    const question = { role: 'user', content: 'sure?' }
    expect(await askedWith([turn, question])).toEqual([{ ...turn, reasoning: 'Add.' }, question])
  })

  test('with parts as plain text where only text can be', async () => {
    const parts = [
      { type: 'text', text: 'one ' },
      { type: 'text', text: 'two' },
    ]
    expect(
      await askedWith([
        { role: 'system', content: parts },
        { role: 'assistant', content: parts },
        { role: 'assistant', content: null, tool_calls: [call('c1')] },
        { role: 'tool', tool_call_id: 'c1', content: parts },
        { role: 'user', content: 'go' },
      ]),
    ).toEqual([
      { role: 'system', content: 'one two' },
      { role: 'assistant', content: 'one two', tool_calls: [call('c1')] },
      { role: 'tool', tool_call_id: 'c1', content: 'one two' },
      { role: 'user', content: 'go' },
    ])
  })

  test('with developer messages as system messages', async () => {
    expect(
      await askedWith([
        { role: 'developer', content: 'Be brief.' },
        { role: 'user', content: 'hello' },
      ]),
    ).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hello' },
    ])
  })

  test('with an empty answer of the assistant', async () => {
    expect(
      await askedWith([
        { role: 'assistant', content: null },
        { role: 'user', content: 'hello' },
      ]),
    ).toEqual([
      { role: 'assistant', content: '' },
      { role: 'user', content: 'hello' },
    ])
  })

  test('with arguments that are an object as their text', async () => {
    const asObject = { ...call('c1'), function: { name: 'add', arguments: { a: 1 } } }
    const [, turn] = await askedWith([
      { role: 'user', content: 'go' },
      { role: 'assistant', content: null, tool_calls: [asObject] },
      { role: 'tool', tool_call_id: 'c1', content: '1' },
    ])
    expect(turn?.tool_calls?.[0]?.function).toEqual({ name: 'add', arguments: '{"a":1}' })
  })
})

test('items of the SDK are left as they are', () => {
  const items: AgentInputItem[] = [
    { role: 'user', content: 'hello' },
    { role: 'user', content: [{ type: 'input_text', text: 'hello' }] },
    { role: 'system', content: 'Be brief.' },
    {
      type: 'message',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'hi' }],
    },
    { type: 'function_call', callId: 'c1', name: 'add', arguments: '{}' },
    {
      type: 'function_call_result',
      callId: 'c1',
      name: 'add',
      status: 'completed',
      output: { type: 'text', text: '3' },
    },
  ]
  expect(toAgentInput(items)).toEqual(items)
  for (const [index, item] of toAgentInput(items).entries()) expect(item).toBe(items[index])
})

describe('what the SDK has no form for is refused by name', () => {
  test.each<[string, PromptMessage, RegExp]>([
    ['a role', { role: 'function', content: 'x' }, /the role "function"; the roles of a prompt/],
    [
      'a part of a user message',
      { role: 'user', content: [{ type: 'video_url', video_url: { url: 'x' } }] },
      /A user message .* "video_url".* text, image_url, input_audio, file\./,
    ],
    [
      'an image without its object',
      { role: 'user', content: [{ type: 'image_url' }] },
      /"image_url" whose image_url has no url/,
    ],
    [
      'audio without its object',
      { role: 'user', content: [{ type: 'input_audio', input_audio: null }] },
      /"input_audio" whose input_audio has no data and format/,
    ],
    [
      'a file without its object',
      { role: 'user', content: [{ type: 'file' }] },
      /"file" whose file has no file_id or file_data/,
    ],
    [
      'a part of an assistant message',
      { role: 'assistant', content: [{ type: 'image_url', image_url: { url: 'x' } }] },
      /An? assistant message .* "image_url"/,
    ],
    ['no part', { role: 'user', content: [null] }, /A user message .* type undefined/],
    [
      'no part of an assistant',
      { role: 'assistant', content: [null] },
      /An? assistant .* undefined/,
    ],
    [
      'an image in a system message',
      { role: 'system', content: [{ type: 'image_url', image_url: { url: 'x' } }] },
      /A system message .* "image_url"/,
    ],
    [
      'a tool call whose function is null',
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'custom', function: null }],
      },
      /has no id or no function/,
    ],
    [
      'no tool call',
      { role: 'assistant', content: null, tool_calls: [null] },
      /has no id or no function: null/,
    ],
    [
      'a tool call without an id',
      { role: 'assistant', content: null, tool_calls: [{ ...call(''), id: undefined }] },
      /has no id or no function/,
    ],
    ['a tool result without an id', { role: 'tool', content: 'x' }, /has no tool_call_id/],
  ])('%s', (_what, message, expected) => {
    expect(() => toAgentInput([message])).toThrow(
      expect.objectContaining({
        code: 'invalid_request',
        message: expect.stringMatching(expected),
      }),
    )
  })
})

function call(id: string): object {
  return { id, type: 'function', function: { name: 'add', arguments: '{"b":2}' } }
}
