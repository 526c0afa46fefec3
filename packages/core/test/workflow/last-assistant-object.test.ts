import { lastAssistantObject } from '@osmosis/core'
import { expect, it } from 'vitest'

const user = { role: 'user', content: 'question' }
const object = { city: 'Rome', people: 2.8 }
const text = JSON.stringify(object)

/** An answer that calls the tool `city`, and the result that the framework puts behind it. */
const calls: Readonly<Record<string, readonly unknown[]>> = {
  'chat completions': [
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ function: { name: 'city', arguments: text } }],
    },
    { role: 'tool', content: 'Returning structured response' },
  ],
  'OpenAI Agents': [
    { type: 'reasoning', content: [] },
    { type: 'function_call', callId: 'a', name: 'city', arguments: text },
    { type: 'function_call_result', callId: 'a', output: { type: 'text', text: 'ok' } },
  ],
  LangChain: [{ role: 'assistant', content: '', tool_calls: [{ name: 'city', args: object }] }],
  'AI SDK': [
    { role: 'assistant', content: [{ type: 'tool-call', toolName: 'city', input: object }] },
    { role: 'tool', content: [{ type: 'tool-result', output: { type: 'text', value: 'ok' } }] },
  ],
  Strands: [
    { role: 'assistant', content: [{ toolUse: { name: 'city', input: object } }] },
    { role: 'user', content: [{ toolResult: { content: [{ text: 'ok' }] } }] },
  ],
  'Claude Agent SDK': [
    { role: 'assistant', content: [{ type: 'tool_use', name: 'city', input: object }] },
  ],
  Gemini: [
    { role: 'model', parts: [{ functionCall: { name: 'city', args: object } }] },
    { role: 'user', parts: [{ functionResponse: { name: 'city' } }] },
  ],
  Pi: [
    { role: 'assistant', content: [{ type: 'toolCall', name: 'city', arguments: object }] },
    { role: 'toolResult', content: [{ type: 'text', text: 'ok' }] },
  ],
}

it.each(Object.entries(calls))('is the arguments of the last call, in %s', (_name, turn) => {
  const messages = [user, { role: 'assistant', content: 'Let me see.' }, user, ...turn]
  expect(lastAssistantObject({ messages })).toEqual(object)
  expect(lastAssistantObject({ messages }, { tool: 'city' })).toEqual(object)
  expect(lastAssistantObject({ messages }, { tool: 'country' })).toBeNull()
  // The policy answered the result of the call, so the call is not its answer.
  const done = { role: 'assistant', content: 'I have looked it up.' }
  expect(lastAssistantObject({ messages: [...messages, done] })).toBeNull()
  expect(lastAssistantObject({ messages: [...messages, user] })).toBeNull()
})

it.each([
  [text, object],
  [` ${text}\n`, object],
  [`<think>Rome has {"people": 3}?</think>${text}`, object],
  ['[1, 2]', null],
  ['3', null],
  ['', null],
  [`It is ${text}`, null],
  [text.slice(0, -1), null],
])('is the object that is the text %j', (content, expected) => {
  expect(lastAssistantObject({ messages: [user, { role: 'assistant', content }] })).toEqual(
    expected,
  )
})

it.each(['model_error', 'limit_reached'])('is none where there is %s', (field) => {
  const messages = [user, { role: 'assistant', content: `<think>hm</think>${text}` }]
  expect(lastAssistantObject({ messages, extraFields: { [field]: 'output' } })).toBeNull()
})

it('is read as the policy wrote it where a framework shows something else', () => {
  const messages = [user, { role: 'assistant', content: 'shown' }]
  const wire = calls['chat completions'] ?? []
  expect(lastAssistantObject({ messages, trajectoryMessages: [user, ...wire] })).toEqual(object)
})

it('is none where arguments are no object', () => {
  const called = (args: unknown): unknown => ({
    role: 'assistant',
    tool_calls: [{ function: { name: 'city', arguments: args } }],
  })
  for (const args of ['[1]', '{"city": "Ro', '', undefined, null, 3]) {
    expect(lastAssistantObject({ messages: [user, called(args)] })).toBeNull()
  }
})
