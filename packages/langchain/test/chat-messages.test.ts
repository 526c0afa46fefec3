import {
  AIMessage,
  type BaseMessage,
  ChatMessage,
  HumanMessage,
  RemoveMessage,
  SystemMessage,
  ToolMessage,
} from '@langchain/core/messages'
import { OsmosisChatModel } from '@osmosis/langchain'
import { startPolicyServer } from '@osmosis/testing'
import { expect, test } from 'vitest'

import { messagesOf, rolloutOn } from '../../../test/kit/index.ts'

async function sent(...messages: BaseMessage[]): Promise<unknown> {
  await using server = await startPolicyServer(() => 'done')
  await rolloutOn(server).run(async () => new OsmosisChatModel().invoke(messages))
  return messagesOf(server.requests[0])
}

const user = (...content: object[]) => new HumanMessage({ content: content as never })
const parts = (...content: object[]) => [{ role: 'user', content }]
const png = 'iVBORw0KGgo='

test.each<[string, BaseMessage[], unknown]>([
  [
    'system messages, the text of their blocks as one',
    [
      new SystemMessage('one'),
      new SystemMessage({
        content: [
          { type: 'text', text: 'two, ' },
          { type: 'text', text: '3' },
        ],
      }),
      new SystemMessage({ content: 'four', additional_kwargs: { __openai_role__: 'developer' } }),
    ],
    [
      { role: 'system', content: 'one' },
      { role: 'system', content: 'two, 3' },
      { role: 'developer', content: 'four' },
    ],
  ],
  [
    'names of speakers, and roles of other templates',
    [new HumanMessage({ content: 'hi', name: 'ann' }), new ChatMessage('note', 'critic')],
    [
      { role: 'user', content: 'hi', name: 'ann' },
      { role: 'critic', content: 'note' },
    ],
  ],
  [
    'blocks of text without what is for a provider',
    [
      user(
        { type: 'text', text: 'hi ', cache_control: { type: 'ephemeral' } },
        { type: 'text', text: 'you' },
      ),
    ],
    [{ role: 'user', content: 'hi you' }],
  ],
  [
    'images of chat completions',
    [
      user(
        { type: 'image_url', image_url: 'https://a.b/c.png' },
        { type: 'image_url', image_url: { url: 'https://a.b/d.png', detail: 'low' } },
      ),
    ],
    parts(
      { type: 'image_url', image_url: { url: 'https://a.b/c.png' } },
      { type: 'image_url', image_url: { url: 'https://a.b/d.png', detail: 'low' } },
    ),
  ],
  [
    'standard blocks',
    [
      user(
        { type: 'text', text: 'see' },
        { type: 'image', url: 'https://a.b/c.png' },
        { type: 'image', data: png, mimeType: 'image/png' },
        { type: 'image', data: new Uint8Array([1, 2]), mimeType: 'image/png' },
        { type: 'audio', data: 'AAAA', mimeType: 'audio/mpeg' },
        { type: 'video', url: 'https://a.b/c.mp4' },
        {
          type: 'file',
          data: 'AAAA',
          mimeType: 'application/pdf',
          metadata: { filename: 'a.pdf' },
        },
        { type: 'file', fileId: 'file-1' },
      ),
    ],
    parts(
      { type: 'text', text: 'see' },
      { type: 'image_url', image_url: { url: 'https://a.b/c.png' } },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AQI=' } },
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } },
      { type: 'video_url', video_url: { url: 'https://a.b/c.mp4' } },
      { type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA', filename: 'a.pdf' } },
      { type: 'file', file: { file_id: 'file-1' } },
    ),
  ],
  [
    'data blocks of older versions',
    [
      user(
        {
          type: 'image',
          source_type: 'base64',
          data: png,
          mime_type: 'image/png',
          metadata: { detail: 'high' },
        },
        { type: 'audio', source_type: 'url', url: 'data:audio/wav;base64,AAAA' },
        { type: 'file', source_type: 'id', id: 'file-1' },
        { type: 'text', source_type: 'text', text: 'hi' },
      ),
    ],
    parts(
      { type: 'image_url', image_url: { url: `data:image/png;base64,${png}`, detail: 'high' } },
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
      { type: 'file', file: { file_id: 'file-1' } },
      { type: 'text', text: 'hi' },
    ),
  ],
  [
    'turns of an assistant from elsewhere, in any form',
    [
      new HumanMessage('go'),
      new AIMessage({
        content: [
          { type: 'reasoning', reasoning: 'Hm.' },
          { type: 'text', text: 'Adding.' },
          { type: 'tool_use', id: 'c1', name: 'add', input: { a: 1 } },
        ] as never,
        tool_calls: [{ id: 'c1', name: 'add', args: { a: 1 } }],
      }),
      new ToolMessage({ tool_call_id: 'c1', name: 'add', content: [{ type: 'text', text: '1' }] }),
      new AIMessage({ content: '', tool_calls: [{ id: 'c2', name: 'add', args: {} }] }),
      new ToolMessage({ tool_call_id: 'c2', content: '0' }),
    ],
    [
      { role: 'user', content: 'go' },
      {
        role: 'assistant',
        content: 'Adding.',
        reasoning_content: 'Hm.',
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a":1}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: '1' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c2', type: 'function', function: { name: 'add', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c2', content: '0' },
    ],
  ],
  [
    'an image in the result of a tool',
    [
      new AIMessage({ content: '', tool_calls: [{ id: 'c1', name: 'look', args: {} }] }),
      new ToolMessage({
        tool_call_id: 'c1',
        content: [{ type: 'image_url', image_url: { url: 'https://a.b/c.png' } }],
      }),
    ],
    [
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }],
      },
      {
        role: 'tool',
        tool_call_id: 'c1',
        content: [{ type: 'image_url', image_url: { url: 'https://a.b/c.png' } }],
      },
    ],
  ],
])('%s reach the policy', async (_what, messages, expected) => {
  expect(await sent(...messages)).toEqual(expected)
})

test.each<[string, BaseMessage, string]>([
  [
    'a block of no known type',
    user({ type: 'hologram' }),
    'A content block of the type "hologram" in a LangChain message of the type "human"',
  ],
  ['an image without data', user({ type: 'image', id: 'x' }), 'of the type "image"'],
  ['audio at an address', user({ type: 'audio', url: 'https://a.b/c.wav' }), 'of the type "audio"'],
  ['a file at an address', user({ type: 'file', url: 'https://a.b/c.pdf' }), 'of the type "file"'],
  [
    'an image of an assistant',
    new AIMessage({ content: [{ type: 'image_url', image_url: 'https://a.b' }] }),
    'of the type "image_url" in a LangChain message of the type "ai"',
  ],
  [
    'a message that removes another',
    new RemoveMessage({ id: '1' }),
    'of the type "remove" has no chat completions form',
  ],
  [
    'a tool call without an id',
    new AIMessage({ content: '', tool_calls: [{ name: 'add', args: {} }] }),
    'The call of the tool "add" in an AIMessage has no id',
  ],
])('%s is refused before the policy is called', async (_what, message, reason) => {
  await using server = await startPolicyServer([])
  await rolloutOn(server).run(async () => {
    const call = new OsmosisChatModel().invoke([message])
    await expect(call).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(reason),
    })
  })
  expect(server.requests).toHaveLength(0)
})
