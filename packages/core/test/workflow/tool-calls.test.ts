import { toolCalls } from '@osmosis/core'
import { expect, it } from 'vitest'

const args = { city: 'Rome' }
const text = '{"city": "Rome"}'

/** Two calls of one tool and their results, as the messages of frameworks show them. */
const conversations: Readonly<Record<string, readonly unknown[]>> = {
  'chat completions': [
    {
      role: 'assistant',
      content: null,
      tool_calls: ['a', 'b'].map((id) => ({ id, function: { name: 'find', arguments: text } })),
    },
    { role: 'tool', tool_call_id: 'a', content: 'first' },
    { role: 'tool', tool_call_id: 'b', content: [{ type: 'text', text: 'second' }] },
  ],
  'OpenAI Agents': [
    { type: 'function_call', id: 'item-1', callId: 'a', name: 'find', arguments: text },
    { type: 'function_call', id: 'item-2', callId: 'b', name: 'find', arguments: text },
    { type: 'function_call_result', callId: 'a', output: { type: 'text', text: 'first' } },
    { type: 'function_call_result', callId: 'b', output: { type: 'text', text: 'second' } },
  ],
  Responses: [
    { type: 'function_call', id: 'item-1', call_id: 'a', name: 'find', arguments: text },
    { type: 'function_call_output', call_id: 'a', output: 'first' },
    { type: 'function_call', id: 'item-2', call_id: 'b', name: 'find', arguments: text },
    { type: 'function_call_output', call_id: 'b', output: 'second' },
  ],
  LangChain: [
    {
      role: 'assistant',
      content: '',
      tool_calls: ['a', 'b'].map((id) => ({ id, name: 'find', args })),
    },
    { role: 'tool', tool_call_id: 'b', content: 'second' },
    { role: 'tool', tool_call_id: 'a', content: 'first' },
  ],
  'AI SDK': [
    {
      role: 'assistant',
      content: ['a', 'b'].map((toolCallId) => ({
        type: 'tool-call',
        toolCallId,
        toolName: 'find',
        input: args,
      })),
    },
    {
      role: 'tool',
      content: [
        { type: 'tool-result', toolCallId: 'a', output: { type: 'text', value: 'first' } },
        { type: 'tool-result', toolCallId: 'b', output: { type: 'text', value: 'second' } },
      ],
    },
  ],
  Strands: [
    {
      role: 'assistant',
      content: ['a', 'b'].map((toolUseId) => ({
        toolUse: { toolUseId, name: 'find', input: args },
      })),
    },
    {
      role: 'user',
      content: [
        { toolResult: { toolUseId: 'a', content: [{ text: 'first' }] } },
        { toolResult: { toolUseId: 'b', content: [{ text: 'second' }] } },
      ],
    },
  ],
  'Claude Agent SDK': [
    {
      role: 'assistant',
      content: ['a', 'b'].map((id) => ({ type: 'tool_use', id, name: 'find', input: args })),
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'b', content: 'second' },
        { type: 'tool_result', tool_use_id: 'a', content: 'first' },
      ],
    },
  ],
  Pi: [
    {
      role: 'assistant',
      content: ['a', 'b'].map((id) => ({ type: 'toolCall', id, name: 'find', arguments: args })),
    },
    {
      role: 'toolResult',
      toolCallId: 'a',
      toolName: 'find',
      content: [{ type: 'text', text: 'first' }],
    },
    {
      role: 'toolResult',
      toolCallId: 'b',
      toolName: 'find',
      content: [{ type: 'text', text: 'second' }],
    },
  ],
}

it.each(Object.entries(conversations))('are in order, with their results, in %s', (_name, turn) => {
  const messages = [
    { role: 'user', content: 'go' },
    ...turn,
    { role: 'assistant', content: 'Done.' },
  ]
  expect(toolCalls({ messages })).toEqual([
    { id: 'a', name: 'find', arguments: args, result: 'first' },
    { id: 'b', name: 'find', arguments: args, result: 'second' },
  ])
})

it('of Gemini without ids get results in the order of the calls', () => {
  const call = { functionCall: { name: 'find', args } }
  const results = ['first', 'second'].map((said) => ({
    functionResponse: { name: 'find', response: { said } },
  }))
  const messages = [
    { role: 'model', parts: [call, call] },
    { role: 'user', parts: results },
  ]
  expect(toolCalls({ messages })).toEqual([
    { id: null, name: 'find', arguments: args, result: '{"said":"first"}' },
    { id: null, name: 'find', arguments: args, result: '{"said":"second"}' },
  ])
})

it('are read from what the policy saw, where that is known', () => {
  const messages = conversations['Strands'] ?? []
  const trajectoryMessages = [
    { role: 'assistant', tool_calls: [{ id: 'c', function: { name: 'seen', arguments: '{' } }] },
  ]
  expect(toolCalls({ messages, trajectoryMessages })).toEqual([
    { id: 'c', name: 'seen', arguments: '{', result: null },
  ])
})

it.each([
  ['{"city": "Rome"}', args],
  ['null', null],
  ['"Rome"', 'Rome'],
  ['{"city": "Ro', '{"city": "Ro'],
  ['', ''],
])('have the value of the JSON %j, or the text', (given, value) => {
  const call = { id: 'a', function: { name: 'find', arguments: given } }
  const messages = [{ role: 'assistant', tool_calls: [call] }]
  expect(toolCalls({ messages })[0]?.arguments).toEqual(value)
})

it('are none in a conversation without tools, whatever its messages contain', () => {
  const messages = [
    null,
    'text',
    3,
    { role: 'user' },
    { role: 'assistant', content: [null, 'x'] },
    {},
  ]
  expect(toolCalls({ messages })).toEqual([])
})

it('has each digit that the policy wrote of an integer, as text beyond 2^53', () => {
  const written =
    '{"id": 12345678901234567891, "near": [-9007199254740993, 9007199254740991, 1e21, 1.0]}'
  const call = { id: 'a', type: 'function', function: { name: 'find', arguments: written } }
  expect(toolCalls({ messages: [{ role: 'assistant', tool_calls: [call] }] })).toMatchObject([
    {
      arguments: {
        id: '12345678901234567891',
        near: ['-9007199254740993', 9007199254740991, 1e21, 1],
      },
    },
  ])
})
