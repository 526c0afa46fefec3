import { FunctionTool } from '@strands-agents/sdk'
import type { ChatMessage } from '@osmosis/core/policy'
import { fault, startPolicyServer } from '@osmosis/testing'
import { messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'

import { policyAgent } from './rollout.ts'

const text = fc.oneof(
  { weight: 3, arbitrary: fc.string({ unit: 'grapheme', maxLength: 40 }) },
  {
    weight: 2,
    arbitrary: fc.constantFrom('', ' ', '\n\n', '\t \n', '  edge ', '[ERROR] no', '😀\n'),
  },
)

const json = fc
  .tuple(fc.dictionary(fc.string(), fc.jsonValue()), fc.constantFrom(0, 1, 3, '\t', '\n'))
  .map(([value, indent]) => JSON.stringify(value, null, indent))

const written = fc.oneof(
  { weight: 3, arbitrary: json },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '{ "a" : 12.0,   "b":2 }',
      '{"a":12345678901234567890,"b":1e2}',
      '{"n":-0,"m":1e999}',
      '{"a":1,"a":2}',
      '{"__proto__":{"x":1}}',
      '{"city":"K\\u00f6ln \\/ \\"x\\""}',
      '\n{}\n',
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom('', ' ', '{"a": 1, "b', '[1]', '"x"', 'null', 'go!') },
)

const turn = fc.record({
  content: fc.option(text),
  reasoning: fc.option(
    text.filter((value) => value !== ''),
    { nil: undefined },
  ),
  calls: fc.array(written, { maxLength: 3 }),
  oneFatChunk: fc.boolean(),
})

type Turn = typeof turn extends fc.Arbitrary<infer T> ? T : never

test('sends every answer of the policy again unchanged', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(turn, { minLength: 1, maxLength: 4 }), sendsBackUnchanged),
    { numRuns: 30 },
  )
})

async function sendsBackUnchanged(turns: readonly Turn[]): Promise<void> {
  await using server = await startPolicyServer([
    ...turns.map(({ content, reasoning, calls, oneFatChunk }, index) => {
      const toolCalls = calls.map((args, n) => ({
        id: `c-${index}-${n}`,
        name: 'f',
        arguments: args,
      }))
      const answer = { content, toolCalls, ...(reasoning === undefined ? {} : { reasoning }) }
      return fault.on(answer, { oneFatChunk })
    }),
    'done',
  ])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const f = new FunctionTool({ name: 'f', description: 'Anything.', callback: () => 'ok' })
    const agent = policyAgent({ tools: [f] })
    while (server.requests.length <= turns.length) await agent.invoke('continue')
  })

  const requests = server.requests.map(messagesOf)
  for (const [index, said] of turns.entries()) {
    const before = requests[index] ?? []
    const after = requests[index + 1]?.slice(0, before.length + 1)
    expect(after).toEqual([...before, onTheWire(said, index)])
  }
  const { calls, extraFields, trajectoryMessages } = await sampleOf(rollout)
  expect(extraFields).toEqual({})
  expect(calls.every(({ extendsPrevious }) => extendsPrevious)).toBe(true)
  const recorded = (trajectoryMessages ?? [])
    .flatMap(({ tool_calls = [] }) => tool_calls)
    .map((call) => call.function.arguments)
  expect(recorded).toEqual(turns.flatMap(({ calls: texts }) => texts))
}

function onTheWire({ content, reasoning, calls }: Turn, index: number): ChatMessage {
  return {
    role: 'assistant',
    content: content || (calls.length > 0 ? null : ''),
    ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
    ...(calls.length > 0
      ? {
          tool_calls: calls.map((args, n) => ({
            id: `c-${index}-${n}`,
            type: 'function' as const,
            function: { name: 'f', arguments: isObject(args) ? args : '{}' },
          })),
        }
      : {}),
  }
}

function isObject(args: string): boolean {
  try {
    const value: unknown = JSON.parse(args)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}
