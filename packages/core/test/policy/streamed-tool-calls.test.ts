import { RolloutContext, toRolloutSample } from '@osmosis/core'
import type { AssistantMessage, ChatCompletionChunk, ChatToolCall } from '@osmosis/core/policy'
import * as fc from 'fast-check'
import { expect, it } from 'vitest'

import {
  chunk,
  eventStream,
  sendStream,
  startPolicyEndpoint,
  runs,
} from '../../../../test/kit/index.ts'

const messages = [{ role: 'user', content: 'go' }]

/** A call as a test shows it: its id (`made` for one that the server did not give), name, arguments. */
type Shown = [id: string, name: string, args: string]

/** An entry of `tool_calls` in one chunk: its arguments and what else it says. */
function piece(args: string, { name, ...more }: { name?: string; [key: string]: unknown } = {}) {
  return { ...more, function: { ...(name ? { name } : {}), arguments: args } }
}

function toolCallStream(chunks: readonly object[][]): string {
  const deltas = chunks.map((list) => chunk({ tool_calls: list }))
  return eventStream(...deltas, chunk({}, 'tool_calls'))
}

function shownId(id: string): string {
  return id.replace(/^call_[0-9a-f]{32}$/, 'made')
}

/** Per row: the lists of `tool_calls`, one per chunk, and the calls that they are. */
const shapes: [what: string, chunks: object[][], calls: Shown[]][] = [
  [
    'one call with index and id, as OpenAI streams it',
    [
      [piece('', { index: 0, id: 'a', name: 'f' })],
      [piece('{"x"', { index: 0 })],
      [piece(':1}', { index: 0 })],
    ],
    [['a', 'f', '{"x":1}']],
  ],
  [
    'one call without index whose later ids are missing',
    [[piece('', { id: 'a', name: 'f' })], [piece('{"x"')], [piece(':1}')]],
    [['a', 'f', '{"x":1}']],
  ],
  [
    'one call without index whose later ids are empty',
    [[piece('', { id: 'a', name: 'f' })], [piece('{"x"', { id: '' })], [piece(':1}', { id: '' })]],
    [['a', 'f', '{"x":1}']],
  ],
  [
    'one call without index whose later ids are null',
    [
      [piece('', { id: 'a', name: 'f' })],
      [piece('{"x"', { id: null })],
      [piece(':1}', { id: null })],
    ],
    [['a', 'f', '{"x":1}']],
  ],
  [
    'one call without index and without any id',
    [[piece('', { id: '', name: 'f' })], [piece('{"x"', { id: '' })], [piece(':1}', { id: null })]],
    [['made', 'f', '{"x":1}']],
  ],
  [
    'one call whose index and ids are null',
    [
      [piece('{"x"', { index: null, id: null, name: 'f' })],
      [piece(':1}', { index: null, id: null })],
    ],
    [['made', 'f', '{"x":1}']],
  ],
  [
    'one call whose id changes with every delta',
    [
      [piece('', { index: 0, id: 'a', name: 'f' })],
      [piece('{"x"', { index: 0, id: 'b' })],
      [piece(':1}', { index: 0, id: 'c' })],
    ],
    [['a', 'f', '{"x":1}']],
  ],
  [
    'one call without index whose id changes with every delta',
    [[piece('{"x"', { id: 'a', name: 'f' })], [piece(':1}', { id: 'b' })]],
    [['a', 'f', '{"x":1}']],
  ],
  [
    'one call whose id and name are in every delta',
    [
      [piece('{}', { index: 0, id: 'a', name: 'f' })],
      [piece('', { index: 0, id: 'a', name: 'f' })],
    ],
    [['a', 'f', '{}']],
  ],
  [
    'one call without index whose id and name are in every delta',
    [[piece('{"x"', { id: 'a', name: 'f' })], [piece(':1}', { id: 'a', name: 'f' })]],
    [['a', 'f', '{"x":1}']],
  ],
  [
    'one call without id whose name is in every delta',
    [[piece('{}', { index: 0, name: 'f' })], [piece('', { index: 0, name: 'f' })]],
    [['made', 'f', '{}']],
  ],
  [
    'one call whose id comes late',
    [
      [piece('', { index: 0, name: 'f' })],
      [piece('{"x"', { index: 0, id: 'late' })],
      [piece(':1}', { index: 0, id: 'late' })],
    ],
    [['late', 'f', '{"x":1}']],
  ],
  [
    'one call without index whose id comes late',
    [[piece('', { name: 'f' })], [piece('{}', { id: 'late' })]],
    [['late', 'f', '{}']],
  ],
  [
    'one call whose id comes late with the name again, and stays',
    [
      [piece('', { index: 0, name: 'f' })],
      [piece('{}', { index: 0, id: 'late', name: 'f' })],
      [piece('', { index: 0, id: 'late', name: 'f' })],
    ],
    [['late', 'f', '{}']],
  ],
  [
    'one call whose name comes behind its id',
    [[piece('', { index: 0, id: 'a' })], [piece('{}', { index: 0, id: 'b', name: 'f' })]],
    [['a', 'f', '{}']],
  ],
  [
    'calls that are written concurrently',
    [
      [piece('{', { index: 0, id: 'a', name: 'f' }), piece('{', { index: 1, name: 'f' })],
      [piece('"x":2}', { index: 1 }), piece('"x":1}', { index: 0 })],
    ],
    [
      ['a', 'f', '{"x":1}'],
      ['made', 'f', '{"x":2}'],
    ],
  ],
  [
    'calls that are all numbered 0, with ids of their own',
    [
      [piece('', { index: 0, id: 'a', name: 'f' })],
      [piece('{}', { index: 0 })],
      [piece('', { index: 0, id: 'b', name: 'f' })],
      [piece('[]', { index: 0, id: '' })],
    ],
    [
      ['a', 'f', '{}'],
      ['b', 'f', '[]'],
    ],
  ],
  [
    'calls that are all numbered 0 and written concurrently',
    [
      [piece('{', { index: 0, id: 'a', name: 'f' })],
      [piece('[', { index: 0, id: 'b', name: 'g' })],
      [piece('}', { index: 0, id: 'a' })],
      [piece(']', { index: 0, id: 'b', name: 'g' })],
    ],
    [
      ['a', 'f', '{}'],
      ['b', 'g', '[]'],
    ],
  ],
  [
    'calls that are all numbered 0, without ids, of different tools',
    [[piece('{}', { index: 0, name: 'f' })], [piece('[]', { index: 0, name: 'g' })]],
    [
      ['made', 'f', '{}'],
      ['made', 'g', '[]'],
    ],
  ],
  [
    'calls that are all numbered 0, the first without an id',
    [[piece('{}', { index: 0, name: 'f' })], [piece('[]', { index: 0, id: 'b', name: 'f' })]],
    [
      ['made', 'f', '{}'],
      ['b', 'f', '[]'],
    ],
  ],
  [
    'calls without index and id, one behind the other',
    [
      [piece('{"x"', { name: 'f' })],
      [piece(':1}')],
      [piece('{"x":2}', { name: 'f' })],
      [piece('{}', { name: 'g' })],
    ],
    [
      ['made', 'f', '{"x":1}'],
      ['made', 'f', '{"x":2}'],
      ['made', 'g', '{}'],
    ],
  ],
  [
    'calls without index and id in one list',
    [
      [piece('{}', { name: 'f' }), piece('', { name: 'f' }), piece('', { name: 'f' })],
      [piece('[]')],
    ],
    [
      ['made', 'f', '{}'],
      ['made', 'f', '{}'],
      ['made', 'f', '[]'],
    ],
  ],
  [
    'calls without id in one list, all numbered 0',
    [[piece('{}', { index: 0, name: 'f' }), piece('[]', { index: 0, name: 'f' })]],
    [
      ['made', 'f', '{}'],
      ['made', 'f', '[]'],
    ],
  ],
  [
    'calls whose names are in every list',
    [
      [piece('{', { index: 0, name: 'f' }), piece('[', { index: 1, name: 'g' })],
      [piece('}', { index: 0, name: 'f' }), piece(']', { index: 1, name: 'g' })],
    ],
    [
      ['made', 'f', '{}'],
      ['made', 'g', '[]'],
    ],
  ],
  [
    'calls whose names come in pieces, in turns, with ids first',
    [
      [
        piece('', { index: 0, id: 'a', name: 'get_' }),
        piece('', { index: 1, id: 'b', name: 'set_' }),
      ],
      [piece('', { index: 0, name: 'weather' }), piece('', { index: 1, name: 'time' })],
      [piece('{}', { index: 0 }), piece('[]', { index: 1 })],
    ],
    [
      ['a', 'get_weather', '{}'],
      ['b', 'set_time', '[]'],
    ],
  ],
  [
    'calls whose names come in pieces, in turns, without ids',
    [
      [piece('', { index: 0, name: 'get_' })],
      [piece('', { index: 1, name: 'get_' })],
      [piece('{"x"', { index: 0, name: 'weather' })],
      [piece('{', { index: 1, name: 'time' })],
      [piece(':1}', { index: 0 })],
      [piece('}', { index: 1 })],
    ],
    [
      ['made', 'get_weather', '{"x":1}'],
      ['made', 'get_time', '{}'],
    ],
  ],
  [
    'calls without index whose names come in pieces, in turns',
    [
      [piece('', { id: 'a', name: 'get_' })],
      [piece('', { id: 'b', name: 'set_' })],
      [piece('', { id: 'a', name: 'weather' })],
      [piece('', { id: 'b', name: 'time' })],
      [piece('[]', { id: 'b' })],
      [piece('{}', { id: 'a' })],
    ],
    [
      ['a', 'get_weather', '{}'],
      ['b', 'set_time', '[]'],
    ],
  ],
  [
    'calls of which the last has its arguments before the name of the first is whole',
    [
      [piece('', { index: 0, id: 'a', name: 'get_' })],
      [piece('', { index: 1, id: 'b', name: 'f' })],
      [piece('', { index: 2, name: 'set_' })],
      [piece('[1]', { index: 2, name: 'time' })],
      [piece('', { index: 0, name: 'wea' })],
      [piece('', { index: 0, name: 'ther' }), piece('{}', { index: 1 })],
    ],
    [
      ['a', 'get_weather', '{}'],
      ['b', 'f', '{}'],
      ['made', 'set_time', '[1]'],
    ],
  ],
  [
    'calls of which the first has no arguments',
    [
      [piece('', { index: 0, id: 'a', name: 'f' })],
      [piece('[]', { index: 1, id: 'b', name: 'g' })],
    ],
    [
      ['a', 'f', '{}'],
      ['b', 'g', '[]'],
    ],
  ],
]

it.each(shapes)('reads %s', async (_what, chunks, calls) => {
  const body = toolCallStream(chunks)
  const policy = await startPolicyEndpoint((response) => sendStream(response, body))
  const newClient = () =>
    new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url }).policy('main')

  const { choices } = await newClient().complete({ messages })
  const answer = choices[0]?.message
  const shown = answer?.tool_calls?.map(({ id, function: { name, arguments: args } }): Shown => [
    shownId(id),
    name,
    args,
  ])
  expect(shown).toStrictEqual(calls)
  expect(new Set(answer?.tool_calls?.map(({ id }) => id)).size).toBe(calls.length)

  const streamed = new Set<string>()
  for await (const { choices: said } of newClient().stream({ messages })) {
    for (const { id } of said[0]?.delta?.tool_calls ?? []) if (id) streamed.add(id)
  }
  expect([...streamed].map(shownId)).toStrictEqual(calls.map(([id]) => id))
})

async function readInto<T>(read: T[], all: AsyncIterable<T>): Promise<void> {
  for await (const item of all) read.push(item)
}

/** Names and arguments. For the agent no arguments are `{}`, and a call without a name has one that no tool has. */
function withoutIds(message: AssistantMessage | undefined): unknown {
  return message?.tool_calls?.map(({ function: { name, arguments: written } }) => [
    name.replace(/^unknown_tool_\d+$/, ''),
    written || '{}',
  ])
}

/** The calls of a stream, as clients of OpenAI put them together. */
function putTogether(chunks: readonly ChatCompletionChunk[]): ChatToolCall[] {
  const calls: ChatToolCall[] = []
  for (const { choices } of chunks) {
    for (const { index = -1, id, function: called } of choices[0]?.delta?.tool_calls ?? []) {
      const call = (calls[index] ??= {
        id: id ?? '',
        type: 'function',
        function: { name: '', arguments: '' },
      })
      call.function.name += called?.name ?? ''
      call.function.arguments += called?.arguments ?? ''
    }
  }
  return calls
}

it('is the same in the record and for readers of the stream, whatever the deltas are', async () => {
  let body = ''
  const policy = await startPolicyEndpoint((response) => sendStream(response, body))
  const said = {
    id: fc.constantFrom('', 'a', 'b', null),
    function: fc.record(
      { name: fc.constantFrom('f', 'g'), arguments: fc.constantFrom('', '{', '}', '{}') },
      { requiredKeys: [] },
    ),
  }
  const index = fc.constantFrom(0, 1)
  // A server numbers all deltas or none.
  const lists = fc.oneof(
    ...[fc.record(said, { requiredKeys: [] }), fc.record({ index, ...said })].map((delta) =>
      fc.array(fc.array(delta, { minLength: 1, maxLength: 2 }), { minLength: 1, maxLength: 6 }),
    ),
  )
  await fc.assert(
    fc.asyncProperty(lists, async (deltas) => {
      body = toolCallStream(deltas)
      const rollout = new RolloutContext({ rolloutId: 'r', chatCompletionsUrl: policy.url })
      rollout.registerSampleSource('main', {
        getSample: (id) => toRolloutSample({ id, messages: [] }),
      })
      const chunks: ChatCompletionChunk[] = []
      const stream = rollout.policy('main').stream({ messages })
      await readInto(chunks, stream)
      const { choices } = await stream.completion
      expect(putTogether(chunks)).toStrictEqual(choices[0]?.message.tool_calls)
      const sample = (await rollout.getSamples()).get('main')
      const recorded = sample?.trajectoryMessages?.at(-1) as AssistantMessage
      expect(withoutIds(recorded)).toStrictEqual(withoutIds(choices[0]?.message))
    }),
    { numRuns: runs(80) },
  )
})
