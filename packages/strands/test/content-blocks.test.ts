import { startPolicyServer } from '@osmosis/testing'
import {
  CachePointBlock,
  CitationsBlock,
  type ContentBlock,
  DocumentBlock,
  GuardContentBlock,
  ImageBlock,
  JsonBlock,
  S3Location,
  TextBlock,
  ToolResultBlock,
  VideoBlock,
} from '@strands-agents/sdk'
import { describe, expect, test } from 'vitest'

import { messagesOf, rolloutOn } from '../../../test/kit/index.ts'
import { policyAgent } from './rollout.ts'

const bytes = new Uint8Array([1, 2, 3])
const location = new S3Location({ uri: 's3://bucket/key' })

async function sent(content: ContentBlock[]): Promise<unknown> {
  await using server = await startPolicyServer(['hi'])
  await rolloutOn(server).run(async () => policyAgent().invoke(content))
  return messagesOf(server.requests[0])
}

describe('a block of the user', () => {
  test.each<[string, ContentBlock[], unknown]>([
    ['text is a plain string', [new TextBlock('hi')], 'hi'],
    [
      'several texts are parts',
      [new TextBlock('a'), new TextBlock('b')],
      [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
    ],
    [
      'an image is a data URL',
      [new ImageBlock({ format: 'jpg', source: { bytes } })],
      [{ type: 'image_url', image_url: { url: 'data:image/jpeg;base64,AQID' } }],
    ],
    [
      'an image with an address keeps it',
      [new ImageBlock({ format: 'png', source: { url: 'https://example.test/a' } })],
      [{ type: 'image_url', image_url: { url: 'https://example.test/a' } }],
    ],
    [
      'a document is a file',
      [new DocumentBlock({ name: 'table', format: 'csv', source: { bytes } })],
      [{ type: 'file', file: { filename: 'table', file_data: 'data:text/csv;base64,AQID' } }],
    ],
    [
      'a document of text is text',
      [new DocumentBlock({ name: 'note', format: 'txt', source: { text: 'words' } })],
      'words',
    ],
    [
      'a document of blocks is text',
      [new DocumentBlock({ name: 'n', format: 'txt', source: { content: [{ text: 'words' }] } })],
      'words',
    ],
    [
      'guarded text is text, and a cache point nothing',
      [
        new GuardContentBlock({ text: { text: 'safe', qualifiers: ['query'] } }),
        new CachePointBlock({ cacheType: 'default' }),
      ],
      'safe',
    ],
    [
      'cited text is text',
      [new CitationsBlock({ citations: [], content: [{ text: 'as they say' }] })],
      'as they say',
    ],
  ])('%s', async (_what, blocks, content) => {
    expect(await sent(blocks)).toEqual([{ role: 'user', content }])
  })

  test.each<[string, ContentBlock]>([
    ['videoBlock', new VideoBlock({ format: 'mp4', source: { bytes } })],
    ['imageBlock with an S3 location', new ImageBlock({ format: 'png', source: { location } })],
    [
      'documentBlock with an S3 location',
      new DocumentBlock({ name: 'n', format: 'pdf', source: { location } }),
    ],
  ])('that chat completions cannot carry is refused: %s', async (what, block) => {
    await expect(sent([block])).rejects.toThrow(`chat completions, which cannot carry a ${what}`)
  })
})

test('the images of a tool result come behind all results, then what else there is', async () => {
  const image = new ImageBlock({ format: 'png', source: { bytes } })
  const result = (toolUseId: string, content: ToolResultBlock['content']): ToolResultBlock =>
    new ToolResultBlock({ toolUseId, status: 'success', content })
  expect(
    await sent([
      new TextBlock('Go on.'),
      result('a', [image]),
      result('b', [new TextBlock('see'), image, new JsonBlock({ json: { n: 1 } })]),
    ]),
  ).toEqual([
    { role: 'tool', tool_call_id: 'a', content: '[The result is in the next message.]' },
    { role: 'tool', tool_call_id: 'b', content: 'see{"n":1}' },
    ...['a', 'b'].map(() => ({
      role: 'user',
      content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AQID' } }],
    })),
    { role: 'user', content: 'Go on.' },
  ])
})
