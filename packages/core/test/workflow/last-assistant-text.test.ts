import { lastAssistantText } from '@osmosis/core'
import { expect, it } from 'vitest'

const user = { role: 'user', content: 'question' }

it.each<[string, unknown[]]>([
  ['chat completions', [user, { role: 'assistant', content: 'answer' }]],
  [
    'chat completions with parts',
    [
      user,
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'ans' },
          { type: 'text', text: 'wer' },
        ],
      },
    ],
  ],
  [
    'OpenAI Agents items',
    [
      user,
      {
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'answer' }],
      },
      { type: 'reasoning', rawContent: [{ type: 'reasoning_text', text: 'hm' }] },
    ],
  ],
  [
    'AI SDK messages',
    [
      user,
      {
        role: 'assistant',
        content: [
          { type: 'reasoning', text: 'hm' },
          { type: 'text', text: 'answer' },
        ],
      },
    ],
  ],
  [
    'Strands messages',
    [
      user,
      { role: 'assistant', content: [{ text: 'answer' }] },
      { role: 'user', content: [{ toolResult: {} }] },
    ],
  ],
  [
    'Gemini contents',
    [
      { role: 'user', parts: [{ text: 'question' }] },
      { role: 'model', parts: [{ text: 'hm', thought: true }, { text: 'answer' }] },
      { role: 'user', parts: [{ functionResponse: {} }] },
    ],
  ],
  [
    'a turn of tool calls behind it',
    [
      user,
      { role: 'assistant', content: 'answer' },
      { role: 'assistant', content: null, tool_calls: [] },
      { role: 'tool', content: 'x' },
    ],
  ],
])('finds the answer in %s', (_what, messages) => {
  expect(lastAssistantText({ messages })).toBe('answer')
})

it('is empty when the assistant never said anything', () => {
  expect(
    lastAssistantText({
      messages: [user, null, 'x', { role: 'assistant', content: [{ toolUse: {} }] }],
    }),
  ).toBe('')
})
