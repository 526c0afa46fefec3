import * as fc from 'fast-check'
import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { answerStream, sendStream, runs } from '../../../test/kit/index.ts'
import { post, proxied, toolCall } from './proxied.ts'

type Item = Record<string, unknown>
const json = fc.jsonValue({ maxDepth: 1 })
/** Of all that texts in JSON may have. The unit of fast-check first makes a table of all signs, which takes a second. */
const anySign = fc
  .oneof(fc.integer({ min: 0, max: 0xd7ff }), fc.integer({ min: 0xe000, max: 0x10ffff }))
  .map((code) => String.fromCodePoint(code))

/** Sends requests of one rollout; what the policy gets of each, and what is said about it. */
async function rollout(path: string): Promise<{
  send: (body: Item) => Promise<{ status: number; messages: unknown; leftOut: string[] }>
}> {
  const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
  onTestFinished(() => warned.mockRestore())
  const { policy, proxy } = await proxied((response) => sendStream(response, answerStream('ok')))
  return {
    async send(body) {
      warned.mockClear()
      const answered = await fetch(proxy.anthropicUrl + path, post(body))
      await answered.text()
      const { messages } = policy.requests.at(-1)?.body ?? {}
      const leftOut = warned.mock.calls.flatMap(([warning]) => namesOf(String(warning)))
      return { status: answered.status, messages, leftOut }
    },
  }
}

/** The names in a warning, in alphabetical order. */
function namesOf(warning: string): string[] {
  const said = /^The agent of rollout r sent what the policy does not get: (.*)\.$/s.exec(warning)
  return (said?.[1] ?? warning).split(', ').toSorted()
}

/** Items of a list, and unknown ones at any place between them. */
function withUnknown(known: readonly Item[], unknown: fc.Arbitrary<Item>): fc.Arbitrary<Item[]> {
  return fc
    .tuple(...[...known, undefined].map(() => fc.array(unknown, { maxLength: 2 })))
    .map((gaps) => gaps.flatMap((gap, n) => [...gap, ...known.slice(n, n + 1)]))
}

function unknownOf(knownTypes: readonly string[]): fc.Arbitrary<Item> {
  const type = fc.oneof(
    fc.constantFrom(
      'document',
      'redacted_thinking',
      'search_result',
      'custom_tool_call',
      'audio',
      '__proto__',
    ),
    fc.string({ maxLength: 20 }).filter((name) => !name.includes(',')),
  )
  const fields = fc.record(
    {
      id: fc.string(),
      call_id: fc.string(),
      name: json,
      content: json,
      role: json,
    },
    { requiredKeys: [] },
  )
  return fc
    .tuple(
      type.filter((name) => !knownTypes.includes(name)),
      fields,
    )
    .map(([name, others]) => ({ ...others, type: name }))
}

/** The names of the unknown ones. */
const namesIn = (kind: string, list: readonly Item[], known: readonly Item[]): string[] =>
  list.filter((item) => !known.includes(item)).map(({ type }) => `${kind} ${JSON.stringify(type)}`)

const result = { type: 'tool_result', tool_use_id: 'c', content: [{ type: 'text', text: 'seen' }] }
const text = [{ type: 'text', text: 'hi' }]
const turn = [
  { type: 'thinking', thinking: 'Hm.' },
  { type: 'text', text: 'I look.' },
  { type: 'tool_use', id: 'c', name: 'look', input: {} },
]
const results = [result, { type: 'text', text: 'and now?' }]

describe('Messages', () => {
  const block = unknownOf(['text', 'image', 'tool_result', 'tool_use', 'thinking'])

  it('reach the policy without unknown blocks, and each is named once', async () => {
    const { send } = await rollout('/v1/messages')
    const known = [text, text, turn, result.content, results]
    const requestOf = ([system, user, assistant, seen, answer]: readonly Item[][]): Item => ({
      max_tokens: 5,
      system,
      messages: [
        { role: 'user', content: user },
        { role: 'assistant', content: assistant },
        {
          role: 'user',
          content: answer?.map((item) => (item === result ? { ...item, content: seen } : item)),
        },
      ],
    })
    const { messages: plain } = await send(requestOf(known))
    const said = new Set<string>()
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(...known.map((list) => withUnknown(list, block))),
        async (lists) => {
          const names = lists.flatMap((list) => namesIn('block', list, known.flat()))
          const fresh = [...new Set(names)].filter((name) => !said.has(name))
          fresh.forEach((name) => said.add(name))
          const first = await send(requestOf(lists))
          expect(first).toMatchObject({ status: 200, leftOut: fresh.toSorted() })
          expect(first.messages).toEqual(plain)
          expect(await send(requestOf(lists))).toMatchObject({ status: 200, leftOut: [] })
        },
      ),
      { numRuns: runs(50) },
    )
  })

  it('that are nothing but unknown blocks, or empty, are no turns', async () => {
    const { send } = await rollout('/v1/messages')
    const blocks = [
      { type: 'document', source: { type: 'text', data: 'x' } },
      { type: 'redacted_thinking', data: 'x' },
      { type: 'image', source: { type: 'file', file_id: 'f' } },
      { type: 'text', text: '' },
    ]
    const content = fc.oneof(fc.constant(''), fc.subarray(blocks))
    const empty = fc.oneof(
      content.map((nothing) => ({ role: 'user', content: nothing })),
      content.map((nothing) => ({ role: 'system', content: nothing })),
      fc.subarray(blocks, { minLength: 1 }).map((nothing) => ({
        role: 'assistant',
        content: nothing,
      })),
    )
    const known = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'ho' },
      { role: 'user', content: 'and now?' },
    ]
    await fc.assert(
      fc.asyncProperty(withUnknown(known, empty), content, async (messages, system) => {
        const sent = await send({ system, messages })
        expect(sent).toMatchObject({ status: 200, messages: known })
      }),
      { numRuns: runs(50) },
    )
  })

  it.each([
    ['of nothing else', [{ role: 'user', content: [{ type: 'document' }] }]],
    [
      'after an answer',
      [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'ho' },
        { role: 'user', content: [{ type: 'document' }] },
      ],
    ],
  ])('refuse a request %s: the policy could not know what to answer', async (_, messages) => {
    const { send } = await rollout('/v1/messages')
    expect((await send({ messages })).status).toBe(400)
  })

  it('keep an answer in which the policy said nothing, or only thought', async () => {
    const { send } = await rollout('/v1/messages')
    const thought = [{ type: 'thinking', thinking: 'Hm.' }]
    const user = { role: 'user', content: 'hi' }
    const { messages } = await send({
      messages: [
        user,
        { role: 'assistant', content: [] },
        user,
        { role: 'assistant', content: thought },
        user,
      ],
    })
    expect(messages).toEqual([
      user,
      { role: 'assistant', content: '' },
      user,
      { role: 'assistant', content: '', reasoning_content: 'Hm.' },
      user,
    ])
  })

  it('lose the result of a call that is left out, and no other', async () => {
    const { send } = await rollout('/v1/messages')
    const { messages } = await send({
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: [{ type: 'mcp_tool_use', id: 'm', name: 'x' }, ...turn] },
        { role: 'user', content: [{ ...result, tool_use_id: 'm' }, ...results] },
      ],
    })
    expect(messages).toEqual([
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        content: 'I look.',
        reasoning_content: 'Hm.',
        tool_calls: [toolCall('c', 'look', '{}')],
      },
      { role: 'tool', tool_call_id: 'c', content: 'seen' },
      { role: 'user', content: 'and now?' },
    ])
  })
})

describe('Responses', () => {
  const types = [
    ['message', 'reasoning', 'function_call', 'function_call_output', 'item_reference'],
    ['input_text', 'output_text', 'text', 'input_image', 'refusal', 'reasoning_text'],
  ].flat()
  const unknown = unknownOf(types)

  it('reach the policy without unknown items and parts, and each is named once', async () => {
    const { send } = await rollout('/v1/responses')
    const parts = [
      [{ type: 'input_text', text: 'hi' }],
      [{ type: 'reasoning_text', text: 'Hm.' }],
      [{ type: 'output_text', text: 'I look.' }],
      [{ type: 'input_text', text: 'seen' }],
    ]
    const itemsOf = ([user, reasoning, assistant, seen]: readonly Item[][]): Item[] => [
      { type: 'message', role: 'user', content: user },
      { type: 'reasoning', content: reasoning },
      { role: 'assistant', content: assistant },
      { type: 'function_call', call_id: 'c', name: 'look', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: seen },
    ]
    const { messages: plain } = await send({ input: itemsOf(parts) })
    const drawn = fc.tuple(...parts.map((list) => withUnknown(list, unknown))).chain((lists) => {
      const items = itemsOf(lists)
      return withUnknown(items, unknown).map((input) => ({ items, input }))
    })
    const said = new Set<string>()
    await fc.assert(
      fc.asyncProperty(drawn, async ({ items, input }) => {
        const names = input.flatMap((item) => {
          if (!items.includes(item)) return namesIn('item', [item], [])
          const { content = item['output'] } = item
          return namesIn('block', Array.isArray(content) ? (content as Item[]) : [], parts.flat())
        })
        const fresh = [...new Set(names)].filter((name) => !said.has(name))
        fresh.forEach((name) => said.add(name))
        const first = await send({ input })
        expect(first).toMatchObject({ status: 200, leftOut: fresh.toSorted() })
        expect(first.messages).toEqual(plain)
        expect(await send({ input })).toMatchObject({ status: 200, leftOut: [] })
      }),
      { numRuns: runs(50) },
    )
  })

  it.each([
    ['custom_tool_call', 'custom_tool_call_output'],
    ['local_shell_call', 'function_call_output'],
    ['computer_call', 'computer_call_output'],
    ['apply_patch_call', 'apply_patch_call_output'],
    ['tool_search_call', 'tool_search_output'],
  ])('lose a %s with its %s, and the answers around it stay apart', async (call, output) => {
    const { send } = await rollout('/v1/responses')
    const { status, messages } = await send({
      input: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'I look.' },
        { type: call, call_id: 'c', name: 'exec', input: 'ls' },
        { type: output, call_id: 'c', output: 'seen' },
        { role: 'assistant', content: 'I saw.' },
        { role: 'user', content: 'and now?' },
      ],
    })
    expect([status, messages]).toEqual([
      200,
      [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'I look.' },
        { role: 'assistant', content: 'I saw.' },
        { role: 'user', content: 'and now?' },
      ],
    ])
  })

  it('that say nothing are no turns, and thinking alone is an answer without text', async () => {
    const { send } = await rollout('/v1/responses')
    const file = { type: 'input_image', file_id: 'f' }
    const hidden = { type: 'reasoning', summary: [], encrypted_content: 'gAAA' }
    const empty = fc.oneof(
      fc.constantFrom<Item>(
        hidden,
        { ...hidden, content: [] },
        { ...hidden, summary: [{ type: 'summary_text', text: 'Hm.' }] },
        { ...hidden, content: [{ type: 'reasoning_text', text: '' }] },
      ),
      fc.record({
        role: fc.constantFrom('user', 'assistant', 'system', 'developer'),
        content: fc.constantFrom<unknown>('', [], [file], [{ type: 'input_text', text: '' }]),
      }),
    )
    const known: Item[] = [
      { role: 'user', content: 'hi' },
      { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'Hm.' }] },
      { role: 'user', content: 'go on' },
    ]
    await fc.assert(
      fc.asyncProperty(withUnknown(known, empty), async (input) => {
        const sent = await send({ input })
        expect(sent.status).toBe(200)
        expect(sent.messages).toEqual([
          known[0],
          { role: 'assistant', content: '', reasoning_content: 'Hm.' },
          known[2],
        ])
        expect((await send({ input: input.filter((item) => !known.includes(item)) })).status).toBe(
          400,
        )
      }),
      { numRuns: runs(50) },
    )
  })

  it('lose the tools of Codex that are no functions, also those in namespaces', async () => {
    const { send } = await rollout('/v1/responses')
    const custom = { type: 'custom', name: 'exec', format: { type: 'grammar' } }
    const tools = [
      custom,
      {
        type: 'namespace',
        name: 'team',
        tools: [
          { ...custom, name: 'run' },
          { type: 'function', name: 'ask' },
        ],
      },
    ]
    const { status, leftOut } = await send({
      tools,
      tool_choice: 'required',
      input: [
        { type: 'additional_tools', role: 'developer', tools },
        { role: 'user', content: [...text, { type: 'input_image', file_id: 'f' }] },
      ],
    })
    expect(status).toBe(200)
    const names = [
      'tool "exec"',
      'tool "run"',
      'item "additional_tools"',
      'block "input_image of a file"',
    ]
    expect(leftOut).toEqual(names.toSorted())
  })
})

it('names are in warnings up to a number, and not at any length', async () => {
  const { send } = await rollout('/v1/messages')
  const fields = (count: number, from = 0): Item =>
    Object.fromEntries(
      Array.from({ length: count }, (_, n) => [`${from + n} ${'x'.repeat(1000)}`, n]),
    )
  const messages = [{ role: 'user', content: 'hi' }]
  const first = await send({ ...fields(5000), messages })
  expect(first.status).toBe(200)
  expect(first.leftOut).toHaveLength(50)
  expect(first.leftOut.join('').length).toBeLessThan(50 * 200)
  const later: number[] = []
  for (let n = 0; n < 30; n += 1) {
    later.push((await send({ ...fields(50, 10_000 * (n + 1)), messages })).leftOut.length)
  }
  expect(later.reduce((sum, count) => sum + count, 50)).toBe(1000)
  expect(later.at(-1)).toBe(0)
})

describe('Chat completions', () => {
  it('reach the policy with everything that it may know', async () => {
    const { send } = await rollout('/v1/chat/completions')
    const part = fc.record({ type: fc.string(), payload: fc.jsonValue({ stringUnit: anySign }) })
    const unknownParts = fc.array(part, { minLength: 1 })
    await fc.assert(
      fc.asyncProperty(unknownParts, fc.dictionary(fc.string(), json), async (content, fields) => {
        const messages = JSON.parse(
          JSON.stringify([{ ...fields, role: 'user', content }]),
        ) as unknown
        const sent = await send({ messages })
        expect(sent).toMatchObject({ status: 200, leftOut: [] })
        expect(sent.messages).toEqual(messages)
      }),
      { numRuns: runs(50) },
    )
  })
})
