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

/** A turn with text and a call, its result, and then this, in the form of each framework. */
const frameworks: Readonly<Record<string, readonly [turn: readonly unknown[], empty: unknown]>> = {
  'chat completions': [
    [
      { role: 'assistant', content: 'I guess 4.', tool_calls: [{ id: 'a', type: 'function' }] },
      { role: 'tool', tool_call_id: 'a', content: '5' },
    ],
    { role: 'assistant', content: null },
  ],
  'OpenAI Agents': [
    [
      {
        type: 'message',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'I guess 4.' }],
      },
      { type: 'function_call', callId: 'a', name: 'f', arguments: '{}' },
      { type: 'function_call_result', callId: 'a', output: { type: 'text', text: '5' } },
    ],
    { type: 'reasoning', content: [{ type: 'input_text', text: 'hm' }] },
  ],
  'AI SDK': [
    [
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'I guess 4.' },
          { type: 'tool-call', toolCallId: 'a' },
        ],
      },
      { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'a' }] },
    ],
    { role: 'assistant', content: [{ type: 'reasoning', text: 'hm' }] },
  ],
  Strands: [
    [
      { role: 'assistant', content: [{ text: 'I guess 4.' }, { toolUse: { name: 'f' } }] },
      { role: 'user', content: [{ toolResult: {} }] },
    ],
    { role: 'assistant', content: [{ reasoningContent: { text: 'hm' } }] },
  ],
  Gemini: [
    [
      { role: 'model', parts: [{ text: 'I guess 4.' }, { functionCall: { name: 'f' } }] },
      { role: 'user', parts: [{ functionResponse: {} }] },
    ],
    { role: 'model', parts: [{ text: 'hm', thought: true }] },
  ],
  Pi: [
    [
      { role: 'assistant', content: [{ type: 'text', text: 'I guess 4.' }, { type: 'toolCall' }] },
      { role: 'toolResult', content: [{ type: 'text', text: '5' }] },
    ],
    { role: 'assistant', content: [{ type: 'thinking', thinking: 'hm' }] },
  ],
}

it.each(Object.entries(frameworks))('is empty when the last answer is, in %s', (_name, given) => {
  const [turn, empty] = given
  const messages = [user, ...turn]
  expect(lastAssistantText({ messages: [...messages, empty] })).toBe('')
  expect(lastAssistantText({ messages: [...messages, empty, user] })).toBe('')
  // It said nothing after its call, so what it said with the call is its answer.
  expect(lastAssistantText({ messages })).toBe('I guess 4.')
  // The framework left the empty answer out.
  const trajectoryMessages = [user, { role: 'assistant', content: '' }]
  expect(lastAssistantText({ messages, trajectoryMessages })).toBe('')
})

it.each([
  ['a refusal', { role: 'assistant', content: null, refusal: 'No.' }],
  ['a refusal with text', { role: 'assistant', content: 'It is', refusal: 'No.' }],
  ['a part that refuses', { role: 'assistant', content: [{ type: 'refusal', refusal: 'No.' }] }],
  ['thinking', { role: 'assistant', content: '<think>It is 5' }],
  ['an empty text', { role: 'assistant', content: '' }],
  ['calls that were none', { role: 'assistant', content: null, tool_calls: [] }],
])('is empty when the last answer is %s', (_what, last) => {
  const messages = [user, { role: 'assistant', content: 'I guess 4.' }, user, last]
  expect(lastAssistantText({ messages })).toBe('')
})

it.each([
  ['<think>4?</think>5', '5'],
  ['\n<think>\n4?\n</think>\n\n5\n', '5'],
  ['<THINK>4</Think> 5', '5'],
  ['<thinking>4</thinking>5', '5'],
  ['<think>4, or', ''],
  ['5 <think>or 4', '5'],
  ['4?\n</think>\n\n5', '5'],
  ['4?</think>', ''],
  ['<think>a</think>5<think>b</think> km', '5 km'],
  ['<think>he wrote "</think>5', '5'],
  ['<think>a</think>4</think>5', '5'],
  ['<think></think>', ''],
  ['The tag `<think>` begins it.', 'The tag `<think>` begins it.'],
  ['{"tag": "</think>", "n": "<think>"}', '{"tag": "</think>", "n": "<think>"}'],
  [' 5 ', ' 5 '],
])('is the answer of %j without its thinking', (content, answer) => {
  const messages = [user, { role: 'assistant', content }]
  expect(lastAssistantText({ messages })).toBe(answer)
  expect(lastAssistantText({ messages }, { keepThinking: true })).toBe(content)
})

it('never has a word of thinking, wherever the answer was cut', () => {
  const full = '<think>The guess is wrong, "wrong", `wrong`.</think>It is right.'
  for (let length = 0; length <= full.length; length++) {
    const messages = [user, { role: 'assistant', content: full.slice(0, length) }]
    expect(lastAssistantText({ messages })).not.toContain('wrong')
  }
})
