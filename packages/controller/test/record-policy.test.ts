import {
  createTrainer,
  recordPolicy,
  scriptedPolicy,
  type PolicyModel,
  type RecordedPolicy,
} from '@osmosis/controller'
import { encodeSse } from '@osmosis/controller/answers'
import { describe, expect, it } from 'vitest'

import { chat, completed, startLoopServer } from './fake-loop-server.ts'

const { signal } = new AbortController()

async function ask(
  policy: PolicyModel,
  body: Record<string, unknown>,
  sampleId = 'main',
  headers: Record<string, string> = {},
): Promise<Response> {
  return policy.respond({ rolloutId: 'r', sampleId, body, headers, signal })
}

const user = { role: 'user', content: '6 × 7?' }

/** Answers with these bytes, in these pieces. */
function sending(pieces: readonly string[], type: string, status = 200): PolicyModel {
  const bytes = pieces.map((piece) => new TextEncoder().encode(piece))
  const headers = { 'content-type': type, 'retry-after': '3' }
  return {
    name: 'p',
    respond: async () => new Response(ReadableStream.from(bytes), { status, headers }),
  }
}

const events = encodeSse([
  {
    id: 'c1',
    created: 1,
    model: 'm',
    prompt_token_ids: [1, 2],
    choices: [
      {
        index: 0,
        delta: { role: 'assistant', content: '4' },
        token_ids: [3],
        logprobs: { content: [{ token: '4', logprob: -0.5 }] },
      },
    ],
  },
  {
    choices: [
      {
        index: 0,
        delta: { content: '2' },
        finish_reason: 'stop',
        token_ids: [4],
        logprobs: { content: [{ token: '2', logprob: -0.25 }] },
      },
    ],
  },
  { choices: [], usage: { prompt_tokens: 2, completion_tokens: 2, total_tokens: 4 } },
])

describe('recordPolicy', () => {
  it.each([
    ['in one piece', [events]],
    ['byte by byte', events.split('')],
  ])('passes a stream that comes %s on as it is, and records it', async (_how, pieces) => {
    const policy = recordPolicy(sending(pieces, 'text/event-stream'))
    const recording = policy.record('r')
    const answer = await ask(policy, { messages: [user], stream: true })
    expect([answer.status, Object.fromEntries(answer.headers)]).toEqual([
      200,
      { 'content-type': 'text/event-stream', 'retry-after': '3' },
    ])
    expect(await answer.text()).toBe(events)
    expect(recording.samples().get('main')).toEqual({
      messages: [user, { role: 'assistant', content: '42' }],
      otherConversations: [],
      historyRewritten: false,
      tools: null,
      userAgent: null,
      trained: [{ messages: [user, { role: 'assistant', content: '42' }], answers: [1] }],
      calls: [
        {
          id: expect.any(String),
          startedAt: expect.any(Number),
          durationMs: expect.any(Number),
          timeToFirstChunkMs: expect.any(Number),
          attempts: 1,
          extendsPrevious: true,
          instructionsChanged: false,
          agent: null,
          instructions: null,
          rewrittenAt: null,
          finishReason: 'stop',
          usage: { prompt_tokens: 2, completion_tokens: 2, total_tokens: 4 },
          model: 'm',
          version: null,
          purpose: 'agent',
          trainable: true,
          sampling: {},
          promptTokenIds: null,
          completionTokenIds: null,
          logprobs: null,
          error: null,
          answerIndex: 1,
        },
      ],
    })
  })

  it('records version, purpose and sampling settings of each call', async () => {
    const json = { 'content-type': 'application/json' }
    const answer = (fields: object): string =>
      JSON.stringify({
        choices: [
          { index: 0, message: { role: 'assistant', content: '42' }, finish_reason: 'stop' },
        ],
        ...fields,
      })
    const answers = [
      answer({ model: 'policy-17' }),
      answer({ model: 'qwen', metadata: { weight_version: '18' } }),
      answer({ model: 'qwen', metadata: { weight_version: 'default' } }),
      answer({}),
      answer({}),
    ]
    const policy = recordPolicy({
      name: 'p',
      respond: async () => new Response(answers.shift() ?? null, { headers: json }),
    })
    const recording = policy.record('r')
    const sampling = { temperature: 0.7, top_p: 1, max_tokens: 5, stop: ['\n'], seed: 1 }
    const messages = [user]
    await (await ask(policy, { messages, ...sampling, tools: [], logprobs: true })).text()
    await (await ask(policy, { messages }, 'main', { 'x-osmosis-purpose': 'judge' })).text()
    const untrained = { 'x-osmosis-purpose': 'title', 'x-osmosis-trainable': 'false' }
    await (await ask(policy, { messages }, 'main', untrained)).text()
    await (await ask(policy, { messages, model: 'policy-19' })).text()
    await (await ask(policy, { messages, model: 'osmosis-rollout' })).text()

    const { calls = [] } = recording.samples().get('main') ?? {}
    const facts = calls.map(({ version, purpose, trainable }) => [version, purpose, trainable])
    expect(facts).toEqual([
      ['policy-17', 'agent', true],
      ['18', 'judge', true],
      [null, 'title', false],
      ['policy-19', 'agent', true],
      [null, 'agent', true],
    ])
    expect(calls[0]?.sampling).toEqual(sampling)
  })

  it('separates the parts of a rewritten conversation, with each answer once', async () => {
    const policy = recordPolicy(sending([events], 'text/event-stream'))
    const recording = policy.record('r')
    const answered = { role: 'assistant', content: '42' }
    const more = { role: 'user', content: 'more' }
    const summary = { role: 'user', content: 'so far: 42' }
    const titles = { 'x-osmosis-trainable': 'false' }
    for (const [messages, headers] of [
      [[user], {}],
      [[user, answered, more], {}],
      [[summary, answered, more], {}],
      [[{ role: 'user', content: 'a title' }], titles],
    ] as const) {
      await (await ask(policy, { messages }, 'main', headers)).text()
    }
    expect(recording.samples().get('main')?.trained).toEqual([
      { messages: [user, answered, more, answered], answers: [1, 3] },
      { messages: [summary, answered, more, answered], answers: [3] },
    ])
  })

  it('keeps the tools of the latest request that had any, sample by sample', async () => {
    const policy = recordPolicy(sending([events], 'text/event-stream'))
    const recording = policy.record('r')
    const [add, subtract] = ['add', 'subtract'].map((name) => ({
      type: 'function',
      function: { name },
    }))
    for (const tools of [[add], [add, subtract], []]) {
      await (await ask(policy, { messages: [user], tools })).text()
    }
    await (await ask(policy, { messages: [user] }, 'other')).text()
    const tools = [...recording.samples()].map(([id, transcript]) => [id, transcript.tools])
    expect(tools).toEqual([
      ['main', [add, subtract]],
      ['other', null],
    ])
  })

  it('keeps who the latest call that names one comes from, as far as that can be a name', async () => {
    const policy = recordPolicy(sending([events], 'text/event-stream'))
    const recording = policy.record('r')
    for (const [sampleId, userAgent] of [
      ['main', 'Agents/JavaScript 1'],
      ['main', `ai/7 ${'x'.repeat(1000)}`],
      ['main', ''],
      ['other', ''],
    ] as const) {
      const headers = { 'user-agent': userAgent }
      await (await ask(policy, { messages: [user] }, sampleId, headers)).text()
    }
    const said = [...recording.samples()].map(([id, transcript]) => [id, transcript.userAgent])
    expect(said).toEqual([
      ['main', `ai/7 ${'x'.repeat(95)}`],
      ['other', null],
    ])
  })

  it('records token ids and logprobs only on request', async () => {
    const policy = recordPolicy(sending([events], 'text/event-stream'), { tokenIds: true })
    const recording = policy.record('r')
    await (await ask(policy, { messages: [user] })).text()
    expect(recording.samples().get('main')?.calls).toMatchObject([
      {
        promptTokenIds: [1, 2],
        completionTokenIds: [3, 4],
        logprobs: { content: [{ logprob: -0.5 }, { logprob: -0.25 }] },
      },
    ])
  })

  it('has an answer before its reader can act on it, however long the connection stays', async () => {
    const open = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode(events)),
    })
    const headers = { 'content-type': 'text/event-stream' }
    const policy = recordPolicy({ name: 'p', respond: async () => new Response(open, { headers }) })
    const recording = policy.record('r')
    const reader = (await ask(policy, { messages: [user] })).body?.getReader()
    await reader?.read()
    expect(recording.samples().get('main')?.calls).toMatchObject([{ finishReason: 'stop' }])
    await reader?.cancel()
  })

  it('follows a conversation of whole answers through several samples, one of them without an id', async () => {
    const policy = recordPolicy(
      scriptedPolicy(({ turn }) =>
        turn === 0 ? { toolCalls: [{ name: 'add', arguments: { a: 1 } }] } : 'done',
      ),
    )
    const recording = policy.record('r')
    const first = (await (await ask(policy, { messages: [user] }, '')).json()) as {
      choices: [{ message: { tool_calls: [{ id: string }] } }]
    }
    const { message } = first.choices[0]
    const result = { role: 'tool', tool_call_id: message.tool_calls[0].id, content: '3' }
    await (await ask(policy, { messages: [user, message, result] }, '')).text()
    await (await ask(policy, { messages: [{ role: 'user', content: 'else' }] }, 'other')).text()
    const samples = recording.samples()
    expect([...samples.keys()]).toEqual(['', 'other'])
    expect(samples.get('')?.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
    ])
    expect(samples.get('')?.calls.map((call) => [call.answerIndex, call.extendsPrevious])).toEqual([
      [1, true],
      [3, true],
    ])
  })

  it('follows a conversation whose tool calls came without ids, which the agent then generated', async () => {
    const called = { name: 'add', arguments: '{"a": 1}' }
    const answers = [
      { tool_calls: [{ type: 'function', function: called }] },
      { content: 'three' },
    ].map((message) => ({ choices: [{ message, finish_reason: 'stop' }] }))
    const policy = recordPolicy({ name: 'p', respond: async () => Response.json(answers.shift()) })
    const recording = policy.record('r')
    await (await ask(policy, { messages: [user] })).text()
    // Written out again, as frameworks do.
    const own = { id: 'mine', type: 'function', function: { ...called, arguments: '{"a":1}' } }
    const assistant = { role: 'assistant', content: null, tool_calls: [own] }
    const result = { role: 'tool', tool_call_id: 'mine', content: '3' }
    await (await ask(policy, { messages: [user, assistant, result] })).text()
    const { historyRewritten, messages, calls } = recording.samples().get('main') ?? {}
    expect(historyRewritten).toBe(false)
    expect(messages?.[1]?.tool_calls?.[0]?.function).toEqual(called)
    expect(calls?.map(({ answerIndex }) => answerIndex)).toEqual([1, 3])
  })

  it.each([
    [
      'breaks off',
      [events.slice(0, events.indexOf('\n\n') + 2)],
      'text/event-stream',
      /ended before its finish_reason/,
    ],
    ['is not JSON', ['{"choices": [{'], 'application/json', /not a JSON object/],
    ['holds no choice', ['{"choices": []}'], 'application/json', /no choices/],
  ])('an answer that %s is passed on and recorded as an error', async (_how, pieces, type, why) => {
    const policy = recordPolicy(sending(pieces, type))
    const recording = policy.record('r')
    expect(await (await ask(policy, { messages: [user] })).text()).toBe(pieces.join(''))
    expect(recording.samples().get('main')).toMatchObject({
      messages: [user],
      calls: [{ error: expect.stringMatching(why), answerIndex: null }],
    })
    expect(recording.trouble).toBe(null)
  })

  it('a connection that breaks, breaks for the caller as well', async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield new TextEncoder().encode(events.slice(0, 40))
      throw new Error('reset')
    }
    const headers = { 'content-type': 'text/event-stream' }
    const respond = async (): Promise<Response> =>
      new Response(ReadableStream.from(broken()), { headers })
    const policy = recordPolicy({ name: 'p', respond })
    const recording = policy.record('r')
    await expect((await ask(policy, { messages: [user] })).text()).rejects.toThrow('reset')
    expect(recording.samples().get('main')?.calls).toMatchObject([
      { error: 'The answer of the policy broke off: reset' },
    ])
    const message = 'The answer of the policy broke off: reset'
    expect(recording.trouble).toEqual({
      isLasting: false,
      isRateLimit: false,
      isAway: true,
      message,
    })
  })

  it('a connection that breaks because its caller left is no trouble of the policy', async () => {
    const caller = new AbortController()
    async function* left(): AsyncGenerator<Uint8Array> {
      yield new TextEncoder().encode(events.slice(0, 40))
      caller.abort(new Error('the deadline'))
      throw new Error('aborted')
    }
    const respond = async (): Promise<Response> =>
      new Response(ReadableStream.from(left()), {
        headers: { 'content-type': 'text/event-stream' },
      })
    const policy = recordPolicy({ name: 'p', respond })
    const recording = policy.record('r')
    const asked = { rolloutId: 'r', sampleId: 'main', body: { messages: [user] }, headers: {} }
    const answer = await policy.respond({ ...asked, signal: caller.signal })
    await expect(answer.text()).rejects.toThrow('aborted')
    expect(recording.samples().get('main')?.calls).toMatchObject([{ error: expect.any(String) }])
    expect(recording.trouble).toBe(null)
  })

  it('messages that are none reach the policy all the same', async () => {
    const policy = recordPolicy(sending(['no'], 'text/plain', 400))
    const recording = policy.record('r')
    expect((await ask(policy, { messages: [null] })).status).toBe(400)
    expect((await ask(policy, {})).status).toBe(400)
    expect(recording.samples().size).toBe(0)
  })
})

describe('the trouble of a recording', () => {
  async function troubleAfter(...statuses: number[]): Promise<unknown> {
    const policy = recordPolicy({
      name: 'p',
      respond: async () =>
        statuses[0] === 200
          ? Response.json({ choices: [{ message: { content: 'x' }, finish_reason: 'stop' }] })
          : new Response('sorry', { status: statuses[0] ?? 0 }),
    })
    const recording = policy.record('r')
    while (statuses.length > 0) {
      await (await ask(policy, { messages: [user] })).text()
      statuses.shift()
    }
    return recording.trouble
  }

  it.each([
    [
      [401, 200],
      {
        isLasting: true,
        isRateLimit: false,
        isAway: false,
        message: 'The policy answered 401: sorry',
      },
    ],
    [
      [402],
      {
        isLasting: true,
        isRateLimit: false,
        isAway: false,
        message: 'The policy answered 402: sorry',
      },
    ],
    [[403], null],
    [
      [429],
      {
        isLasting: false,
        isRateLimit: true,
        isAway: false,
        message: 'The policy answered 429: sorry',
      },
    ],
    [
      [503],
      {
        isLasting: false,
        isRateLimit: false,
        isAway: false,
        message: 'The policy answered 503: sorry',
      },
    ],
    [[503, 200], null],
    [[400], null],
  ])('after %j is %j', async (statuses, trouble) => {
    expect(await troubleAfter(...statuses)).toEqual(trouble)
  })
})

it('calls before a recording and after its end are answered, and not recorded', async () => {
  const policy: RecordedPolicy = recordPolicy(sending([events], 'text/event-stream'))
  const call = async (): Promise<string> => (await ask(policy, { messages: [user] })).text()
  expect(await call()).toBe(events)
  const recording = policy.record('r')
  recording.end()
  expect(await call()).toBe(events)
  expect(recording.samples().size).toBe(0)
})

it('a loop is answered with what the policy wrote, while it is recorded', async () => {
  const text =
    '{ "choices": [{"message": {"role":"assistant","content":"1.0"}, "finish_reason":"stop"}] }'
  const policy = recordPolicy(sending([text], 'application/json'))
  const recording = policy.record('loop-1')
  await using server = await startLoopServer()
  await using trainer = await createTrainer({ policy, apiKey: 'k', server: { url: server.url } })
  const running = trainer.run({ rolloutId: 'loop-1', messages: [user] })
  const init = await server.init(0)
  expect(await (await chat(init, { messages: [user] })).text()).toBe(text)
  expect(recording.samples().get('')?.messages.at(-1)).toEqual({
    role: 'assistant',
    content: '1.0',
  })
  await completed(init)
  expect((await running).status).toBe('success')
})

describe('the cost of a call', () => {
  const price = { input: 2, output: 10, cached: 0.5 }
  const usage = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 }
  const cached = { ...usage, prompt_tokens_details: { cached_tokens: 400 } }

  it.each([
    ['tokens by their price', usage, price, (1000 * 2 + 100 * 10) / 1e6],
    ['cached tokens by theirs', cached, price, (600 * 2 + 400 * 0.5 + 100 * 10) / 1e6],
    ['cached tokens as others', cached, { ...price, cached: null }, (1000 * 2 + 100 * 10) / 1e6],
    ['what the endpoint says', { ...usage, cost: 0.25 }, price, 0.25],
    ['what the endpoint says, without a price', { ...usage, cost_usd: 0.5 }, undefined, 0.5],
    ['nothing that is known, without a price', usage, undefined, null],
    ['nothing that is known, without usage', undefined, price, null],
  ])('is %s', async (_what, said, modelPrice, expected) => {
    const completion = {
      id: 'c',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: '42' }, finish_reason: 'stop' }],
      usage: said,
    }
    const policy = recordPolicy(sending([JSON.stringify(completion)], 'application/json'), {
      price: modelPrice,
    })
    const recording = policy.record('r')
    await (await ask(policy, { messages: [user] })).text()
    const [call] = recording.samples().get('main')?.calls ?? []
    expect(call?.usage?.['cost_usd'] ?? null).toBe(expected)
  })
})
