import { readFileSync } from 'node:fs'
import path from 'node:path'

import type { ChatToolCall } from '@osmosis/core/policy'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { runs } from '../../../../test/kit/index.ts'
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
  /** Of the tool `search`. */
  readonly parameters?: object
}

/** What the templates of each family have in common. */
const templates = {
  hermes: '{{ tools }} <tool_call>',
  'hermes, thinking': '{{ tools }} <tool_call> </think>',
  xml: '{{ tools }} <tool_call> <function=',
  llama: '{{ tools }} <|start_header_id|> {"name": …, "parameters": …}',
}

const searchParameters = { properties: { city: { type: 'string' }, n: { type: 'number' } } }

const offeredWith = (parameters: object): object[] => [
  { type: 'function', function: { name: 'read_note' } },
  { type: 'function', function: { name: 'search', parameters } },
]

// The learner's tests read the same cases.
const file = path.join(import.meta.dirname, '../answers.json')
const cases = JSON.parse(readFileSync(file, 'utf8')) as AnswerCase[]

it.each(cases)(
  '$family: $title',
  ({ family, text, content, reasoning, calls, tools, parameters }) => {
    const given = tools === false ? [] : offeredWith(parameters ?? searchParameters)
    const message = answerReader(templates[family])(text, given)
    expect(message.content).toBe(content)
    expect(message['reasoning_content']).toBe(reasoning)
    expect((message.tool_calls ?? []).map(nameAndArguments)).toEqual(calls)
  },
)

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
  ['{{ tools }} <seed:tool_call> <function=', 'an unknown family'],
])('refuses the template %s as that of %s', (template, name) => {
  expect(() => answerReader(template)).toThrow(`in the form of ${name}`)
})

describe('a value in XML', () => {
  const scalar = fc.oneof(
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true, noInteger: true }),
    fc.constantFrom('123', 'true', 'null', '1.5', '[]', '{}', 'a b', '"q"', 'Zürich', ''),
  )
  const value = fc.oneof(
    scalar,
    fc.array(scalar, { maxLength: 2 }),
    fc.dictionary(fc.constantFrom('a', 'b'), scalar),
  )
  const typeOf = (one: unknown): string =>
    one === null
      ? 'null'
      : Array.isArray(one)
        ? 'array'
        : Number.isInteger(one)
          ? 'integer'
          : typeof one
  /** Ways to say that a value has one of these types. */
  const ways: ((types: string[]) => { schema: object; defs?: object })[] = [
    (types) => ({ schema: { type: types } }),
    (types) => ({ schema: { anyOf: types.map((type) => ({ type })) } }),
    (types) => ({ schema: { oneOf: types.map((type) => ({ type })), title: 'X' } }),
    (types) => ({ schema: { $ref: '#/$defs/X' }, defs: { X: { type: types } } }),
    (types) => ({ schema: { allOf: [{ $ref: '#/$defs/X' }] }, defs: { X: { type: types } } }),
    (types) => ({ schema: { anyOf: [{ anyOf: types.map((type) => ({ type })) }] } }),
  ]

  it('is what the template wrote, where the schema has its type and no other that looks like it', () => {
    const read = answerReader(templates.xml)
    fc.assert(
      fc.property(value, fc.constantFrom(...ways), fc.boolean(), (given, way, isOptional) => {
        // As Qwen3-Coder's template writes values: texts as they are.
        const written = typeof given === 'string' ? given : JSON.stringify(given)
        fc.pre(!(isOptional && written === 'null'))
        const { schema, defs } = way([typeOf(given), ...(isOptional ? ['null'] : [])])
        const parameters = { type: 'object', properties: { p: schema }, $defs: defs ?? {} }
        const text = `<tool_call>\n<function=search>\n<parameter=p>\n${written}\n</parameter>\n</function>\n</tool_call>`
        const { tool_calls: [call] = [] } = read(text, offeredWith(parameters))
        expect(JSON.parse(call?.function.arguments ?? '')).toEqual({ p: given })
      }),
      { numRuns: runs(500) },
    )
  })
})
