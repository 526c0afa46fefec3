import { readFileSync } from 'node:fs'
import path from 'node:path'

import type { ChatToolCall } from '@osmosis/core/policy'
import { expect, it } from 'vitest'

import { answerReader } from '../../src/tinker/read-answer.ts'

interface AnswerCase {
  readonly title: string
  readonly family: keyof typeof templates
  readonly text: string
  readonly content: string | null
  readonly reasoning?: string
  /** Name and arguments of each call. */
  readonly calls: readonly (readonly [string, string])[]
  readonly tools?: false
}

/** What the templates of each family have in common. */
const templates = {
  hermes: '{{ tools }} <tool_call>',
  'hermes, thinking': '{{ tools }} <tool_call> </think>',
  xml: '{{ tools }} <tool_call> <function=',
  llama: '{{ tools }} <|start_header_id|> {"name": …, "parameters": …}',
}

const offered = [
  { type: 'function', function: { name: 'read_note' } },
  {
    type: 'function',
    function: {
      name: 'search',
      parameters: { properties: { city: { type: 'string' }, n: { type: 'number' } } },
    },
  },
]

// The learner's tests read the same cases.
const file = path.join(import.meta.dirname, '../answers.json')
const cases = JSON.parse(readFileSync(file, 'utf8')) as AnswerCase[]

it.each(cases)('$family: $title', ({ family, text, content, reasoning, calls, tools }) => {
  const message = answerReader(templates[family])(text, tools === false ? [] : offered)
  expect(message.content).toBe(content)
  expect(message['reasoning_content']).toBe(reasoning)
  expect((message.tool_calls ?? []).map(nameAndArguments)).toEqual(calls)
})

function nameAndArguments({ function: called }: ChatToolCall): [string, string] {
  return [called.name, called.arguments]
}

it.each([
  ['{{ tools }} <tool_call> <arg_key>', 'GLM'],
  ['{{ tools }} <|channel|>', 'gpt-oss'],
  ['{{ tools }} <|tool_call>', 'Gemma'],
  ['{{ tools }} <|tool_call_start|>', 'LFM2'],
  ['{{ tools }} <｜tool▁call▁begin｜>', 'DeepSeek'],
  ['{{ tools }} [TOOL_CALLS]', 'Mistral'],
  ['{{ tools }}', 'an unknown family'],
])('refuses the template %s as that of %s', (template, name) => {
  expect(() => answerReader(template)).toThrow(`in the form of ${name}`)
})

it('refuses requests with tools when the template takes none', () => {
  const read = answerReader('{{ messages }}')
  expect(read('x', []).content).toBe('x')
  expect(() => read('x', offered)).toThrow(expect.objectContaining({ code: 'invalid_request' }))
})
