import { OsmosisToolLoopAgent, rolloutModel, type RolloutModelSettings } from '@osmosis/ai-sdk'
import type { ChatMessage } from '@osmosis/core/policy'
import {
  fault,
  type Faults,
  type ReceivedRequest,
  type Reply,
  startPolicyServer,
} from '@osmosis/testing'
import { callAdd, messagesOf, rolloutOn, sampleOf } from '../../../test/kit/index.ts'
import { extractReasoningMiddleware, generateText, isStepCount, wrapLanguageModel } from 'ai'
import { describe, expect, test } from 'vitest'

import { firstText, loops, tools } from './rollout.ts'

/** Every way to run a tool loop; the name of the model or agent is the sample id. */
const ways = {
  ...loops,
  async 'OsmosisToolLoopAgent.generate'({ name }: RolloutModelSettings, prompt: string) {
    const agent = new OsmosisToolLoopAgent({ id: String(name), model: rolloutModel(), tools })
    return (await agent.generate({ prompt })).text
  },
  async 'OsmosisToolLoopAgent.stream'({ name }: RolloutModelSettings, prompt: string) {
    const agent = new OsmosisToolLoopAgent({ id: String(name), model: rolloutModel(), tools })
    return (await agent.stream({ prompt })).text
  },
}

function call(id: string, args: string): { id: string; name: string; arguments: string } {
  return { id, name: 'add', arguments: args }
}

/** The answers of the policy, turn by turn, with everything that a data model may lose. */
const turns: Exclude<Reply, string>[] = [
  {
    content: ' Two  spaces, Zoë 😀.\n',
    reasoning: 'Think\n  hard.',
    toolCalls: [
      call('c1', '{ "a" : 1.0,   "b":2 }'),
      call('c2', '{"b":1e2,"a":12345678901234567890}'),
    ],
  },
  { toolCalls: [call('c3', '{"a":1,"b":2,"note":"\\u00e9 \\/ 😀"}'), call('c4', '{"a": 1, "b')] },
  {
    toolCalls: [call('c5', '[1, 2]'), call('c6', ''), call('c7', '"text"'), call('c8', '{"b":1}')],
  },
  {
    reasoning: 'Nearly.',
    toolCalls: [{ id: 'c9', name: 'unknown_tool', arguments: '{"x": 1.50}' }],
  },
  { content: 'done' },
]

function turnsIn(messages: readonly ChatMessage[]): ChatMessage[] {
  return messages.filter(({ role }) => role === 'assistant')
}

function assertIdentity(requests: readonly ReceivedRequest[], sampleId: string): void {
  for (const { headers, body, path } of requests) {
    expect(path).toBe('/v1/chat/completions')
    expect(headers).toMatchObject({
      authorization: 'Bearer key',
      'x-rollout-id': 'rollout-1',
      'x-sample-id': sampleId,
    })
    expect(body).toMatchObject({ model: 'osmosis-rollout', stream: true })
  }
}

describe.each(Object.entries(ways))('%s', (_way, run) => {
  test('carries the identity and repeats the conversation byte for byte, in order', async () => {
    await using server = await startPolicyServer(turns)
    const rollout = rolloutOn(server)
    expect(await rollout.run(async () => run({ name: 'main' }, 'go'))).toContain('done')
    assertIdentity(server.requests, 'main')
    expect(server.requests).toHaveLength(turns.length)
    for (const [index, request] of server.requests.entries()) {
      const before = messagesOf(server.requests[index - 1])
      const messages = messagesOf(request)
      expect(JSON.stringify(messages.slice(0, before.length))).toBe(JSON.stringify(before))
    }

    const last = messagesOf(server.requests.at(-1))
    expect(turnsIn(last)).toEqual([
      {
        role: 'assistant',
        content: ' Two  spaces, Zoë 😀.\n',
        reasoning_content: 'Think\n  hard.',
        tool_calls: [
          wireCall('c1', '{ "a" : 1.0,   "b":2 }'),
          wireCall('c2', '{"b":1e2,"a":12345678901234567890}'),
        ],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [wireCall('c3', '{"a":1,"b":2,"note":"\\u00e9 \\/ 😀"}'), wireCall('c4', '{}')],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          wireCall('c5', '{}'),
          wireCall('c6', '{}'),
          wireCall('c7', '{}'),
          wireCall('c8', '{"b":1}'),
        ],
      },
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'Nearly.',
        tool_calls: [wireCall('c9', '{"x": 1.50}', 'unknown_tool')],
      },
    ])
    // The oldest SDK puts results of calls that it refused before those of the others.
    const results = last.filter(({ role }) => role === 'tool')
    expect(new Set(results.map(({ tool_call_id }) => tool_call_id))).toEqual(
      new Set(['c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8', 'c9']),
    )
    expect(results).toHaveLength(9)

    const sample = await sampleOf(rollout, 'main')
    expect(sample.extraFields).toEqual({})
    expect(sample.calls.every(({ extendsPrevious }) => extendsPrevious)).toBe(true)
    const said = turnsIn(sample.trajectoryMessages as ChatMessage[])
    expect(
      said.flatMap(({ tool_calls = [] }) => tool_calls.map((c) => c.function.arguments)),
    ).toEqual(
      turns.flatMap((turn) => ('toolCalls' in turn ? turn.toolCalls : [])?.map((c) => c.arguments)),
    )
  })

  test('never mixes planner and executor, nor one of many rollouts with another', async () => {
    await using server = await startPolicyServer((request) =>
      messagesOf(request).length > 1 ? firstText(request) : callAdd,
    )
    const rollouts = Array.from({ length: 10 }, (_, index) => `rollout-${index}`)
    const texts = await Promise.all(
      rollouts.map(async (id) =>
        rolloutOn(server, id).run(async () =>
          Promise.all(['planner', 'executor'].map(async (name) => run({ name }, `${id}/${name}`))),
        ),
      ),
    )
    expect(texts).toEqual(rollouts.map((id) => [`${id}/planner`, `${id}/executor`]))
    expect(server.requests).toHaveLength(40)
    for (const request of server.requests) {
      const { 'x-rollout-id': rolloutId, 'x-sample-id': sampleId } = request.headers
      expect(firstText(request)).toBe(`${String(rolloutId)}/${String(sampleId)}`)
    }
  })
})

function wireCall(id: string, args: string, name = 'add'): object {
  return { id, type: 'function', function: { name, arguments: args } }
}

describe.each<[string, Faults]>([
  ['in one chunk', { oneFatChunk: true }],
  ['as JSON', { json: true }],
  ['without any index', { omit: ['index'] }],
  ['without a role', { omit: ['role'] }],
  ['without usage', { omit: ['usage'] }],
  ['without [DONE]', { omit: ['done'] }],
  ['with comments and CRLF', { comments: true, crlf: true }],
  ['in seven bytes at a time', { chunkBytes: 7 }],
])('an answer %s', (_how, faults) => {
  test.each(Object.entries(loops))(
    'is heard right by %s and goes back as it was',
    async (_way, run) => {
      const answer = {
        content: 'Adding.',
        reasoning: 'Hm.',
        toolCalls: [call('c1', '{ "a": 1, "b": 2 }'), call('c2', '{"a":3,"b":4}')],
      }
      await using server = await startPolicyServer([
        fault.on(answer, faults),
        fault.on('done', faults),
      ])
      const rollout = rolloutOn(server)
      expect(await rollout.run(async () => run({ name: 'main' }, 'go'))).toContain('done')
      expect(messagesOf(server.requests[1]).slice(1)).toEqual([
        {
          role: 'assistant',
          content: 'Adding.',
          reasoning_content: 'Hm.',
          tool_calls: [wireCall('c1', '{ "a": 1, "b": 2 }'), wireCall('c2', '{"a":3,"b":4}')],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'sum: 3' },
        { role: 'tool', tool_call_id: 'c2', content: 'sum: 7' },
      ])
      expect((await sampleOf(rollout, 'main')).extraFields).toEqual({})
    },
  )
})

function event(delta: object, finish_reason: string | null = null): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`
}

const add = { name: 'add', arguments: '{"a": 1, "b": 2}' }
describe.each<[string, object[]]>([
  [
    'all on index 0',
    [
      { tool_calls: [{ index: 0, id: 'c1', function: add }] },
      { tool_calls: [{ index: 0, id: 'c2', function: add }] },
    ],
  ],
  [
    'with the id and name in every piece',
    [
      { tool_calls: [{ index: 0, id: 'c1', function: { name: 'add', arguments: '{"a": 1, ' } }] },
      { tool_calls: [{ index: 0, id: 'c1', function: { name: 'add', arguments: '"b": 2}' } }] },
      { tool_calls: [{ index: 1, id: 'c2', function: add }] },
    ],
  ],
  [
    'with a blank id in later pieces',
    [
      { tool_calls: [{ index: 0, id: 'c1', function: { name: 'add', arguments: '' } }] },
      { tool_calls: [{ index: 0, id: '', function: { arguments: '{"a": 1, "b": 2}' } }] },
      { tool_calls: [{ index: 1, id: 'c2', function: add }] },
    ],
  ],
  [
    'with the name after the id',
    [
      { tool_calls: [{ index: 0, id: 'c1', function: { arguments: '' } }] },
      { tool_calls: [{ index: 0, function: { name: 'add', arguments: '{"a": 1, ' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '"b": 2}' } }] },
      { tool_calls: [{ index: 1, id: 'c2', function: add }] },
    ],
  ],
])('tool calls %s', (_how, deltas) => {
  test.each(Object.entries(loops))('are what %s executes and repeats', async (_way, run) => {
    const stream = deltas.map((delta) => event(delta)).join('')
    await using server = await startPolicyServer([
      fault.raw(`${stream}${event({}, 'tool_calls')}data: [DONE]\n\n`),
      'done',
    ])
    const rollout = rolloutOn(server)
    await rollout.run(async () => run({ name: 'main' }, 'go'))
    expect(messagesOf(server.requests[1]).slice(1)).toEqual([
      {
        role: 'assistant',
        content: null,
        tool_calls: ['c1', 'c2'].map((id) => wireCall(id, '{"a": 1, "b": 2}')),
      },
      { role: 'tool', tool_call_id: 'c1', content: 'sum: 3' },
      { role: 'tool', tool_call_id: 'c2', content: 'sum: 3' },
    ])
    expect((await sampleOf(rollout, 'main')).extraFields).toEqual({})
  })
})

test('thinking under its other name is heard, and goes back', async () => {
  const delta = { tool_calls: [{ index: 0, id: 'c1', function: add }] }
  await using server = await startPolicyServer([
    fault.raw(`${event({ reasoning: 'Hm.' })}${event(delta, 'tool_calls')}data: [DONE]\n\n`),
    'done',
  ])
  const rollout = rolloutOn(server)
  await rollout.run(async () => loops.generateText({ name: 'main' }, 'go'))
  expect(messagesOf(server.requests[1])[1]).toMatchObject({ reasoning_content: 'Hm.' })
  const sample = await sampleOf(rollout, 'main')
  expect(sample.extraFields).toEqual({})
  expect(sample.messages[1]).toMatchObject({ content: [{ type: 'reasoning', text: 'Hm.' }, {}] })
})

test('flags an empty answer, of which the SDK makes no message', async () => {
  await using server = await startPolicyServer([{ content: '' }, 'now'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const model = rolloutModel('main')
    const first = await generateText({ model, prompt: 'a' })
    expect(first).toMatchObject({ text: '', responseMessages: [] })
    await generateText({ model, prompt: [user('a'), ...first.responseMessages, user('b')] })
  })
  const sample = await sampleOf(rollout, 'main')
  expect(sample.trajectoryMessages?.map(({ content }) => content)).toEqual(['a', 'b', 'now'])
  expect(sample.extraFields).toMatchObject({ history_rewritten: true })
})

function user(content: string): { role: 'user'; content: string } {
  return { role: 'user', content }
}

test('a refusal is a text for the SDK and stays a refusal for the policy', async () => {
  await using server = await startPolicyServer([
    fault.raw(`${event({ refusal: 'I will not.' })}${event({}, 'stop')}data: [DONE]\n\n`),
    'fine',
  ])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const model = rolloutModel('main')
    const refused = await generateText({ model, prompt: 'go' })
    expect(refused).toMatchObject({ text: 'I will not.', finishReason: 'content-filter' })
    const messages = [
      { role: 'user' as const, content: 'go' },
      ...refused.responseMessages,
      { role: 'user' as const, content: 'please' },
    ]
    await generateText({ model, messages })
  })
  expect(messagesOf(server.requests[1])[1]).toEqual({
    role: 'assistant',
    content: '',
    refusal: 'I will not.',
  })
  expect((await sampleOf(rollout, 'main')).extraFields).toEqual({})
})

test('text that a middleware rewrites is sent as it was rewritten, and flagged', async () => {
  const thought = '<think>Hm.</think>'
  await using server = await startPolicyServer([{ content: `${thought}Hi.` }, 'Bye.'])
  const rollout = rolloutOn(server)
  await rollout.run(async () => {
    const model = wrapLanguageModel({
      model: rolloutModel('main'),
      middleware: extractReasoningMiddleware({ tagName: 'think' }),
    })
    const first = await generateText({ model, prompt: 'go' })
    expect(first).toMatchObject({ text: 'Hi.', reasoningText: 'Hm.' })
    await generateText({
      model,
      messages: [
        { role: 'user', content: 'go' },
        ...first.responseMessages,
        { role: 'user', content: 'more' },
      ],
    })
  })
  const sample = await sampleOf(rollout, 'main')
  expect(sample.extraFields).toMatchObject({
    history_rewritten: true,
    other_conversations: [[{ content: 'go' }, { content: `${thought}Hi.` }]],
  })
})

test('instructions that change begin another conversation', async () => {
  await using server = await startPolicyServer([callAdd, 'done'])
  const rollout = rolloutOn(server)
  await rollout.run(async () =>
    generateText({
      model: rolloutModel('main'),
      prompt: 'go',
      tools,
      stopWhen: isStepCount(3),
      prepareStep: ({ stepNumber }) => ({ instructions: `This is step ${stepNumber}.` }),
    }),
  )
  const sample = await sampleOf(rollout, 'main')
  expect(sample.extraFields).toMatchObject({ history_rewritten: true })
  expect(sample.trajectoryMessages?.[0]).toEqual({ role: 'system', content: 'This is step 1.' })
})
