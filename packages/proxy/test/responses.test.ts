import { describe, expect, it, onTestFinished, vi } from 'vitest'

import { chunk, eventStream, sendJson, sendStream } from '../../../test/kit/index.ts'
import { answering, events, json, post, proxied, sentTo, toolCall } from './proxied.ts'

const basic = { model: 'gpt', input: 'hi' }

/** Calls the Responses API of a proxy. */
const ask = (
  proxy: { url: string },
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Response> => fetch(`${proxy.url}/responses`, post(body, headers))

interface Answered {
  id: string
  output: Record<string, unknown>[]
}

const answer = {
  reasoning_content: 'Hm. ',
  content: 'I look. ',
  tool_calls: [
    toolCall('c0', 'look', '{"at": 10.0, "b":1}'),
    toolCall('c1', 'team__ask', '{"at": oops'),
  ],
}

describe('a request', () => {
  it('becomes chat completions', async () => {
    const { policy, proxy } = await answering(['ok'])
    await ask(proxy, {
      model: 'gpt',
      instructions: 'Be brief.',
      max_output_tokens: 50,
      temperature: 0.5,
      parallel_tool_calls: false,
      text: {
        format: { type: 'json_schema', name: 'out', schema: { type: 'object' }, strict: true },
      },
      tool_choice: { type: 'function', name: 'look' },
      tools: [
        { type: 'function', name: 'look', parameters: { type: 'object' }, strict: false },
        { type: 'namespace', name: 'team', tools: [{ type: 'function', name: 'ask' }] },
      ],
      input: [
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Be kind.' }] },
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'hi' },
            { type: 'input_image', image_url: 'https://a.example/b.png', detail: 'low' },
          ],
        },
        {
          type: 'reasoning',
          id: 'rs',
          summary: [],
          content: [{ type: 'reasoning_text', text: 'Hm.' }],
        },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I look.' }] },
        { type: 'function_call', call_id: 'c0', name: 'look', arguments: '{}' },
        { type: 'function_call', call_id: 'c1', name: 'ask', namespace: 'team', arguments: '{}' },
        {
          type: 'function_call_output',
          call_id: 'c0',
          output: [
            { type: 'input_text', text: 'seen' },
            { type: 'input_image', image_url: 'data:image/png;base64,AA==' },
          ],
        },
        { type: 'function_call_output', call_id: 'c1', output: 'asked' },
      ],
    })
    const { model: _, stream: __, stream_options: ___, ...sent } = sentTo(policy)
    const look = { name: 'look', parameters: { type: 'object' }, strict: false }
    expect(sent).toEqual({
      max_tokens: 50,
      temperature: 0.5,
      parallel_tool_calls: false,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'out', schema: { type: 'object' }, strict: true },
      },
      tool_choice: { type: 'function', function: { name: 'look' } },
      tools: [
        { type: 'function', function: look },
        { type: 'function', function: { name: 'team__ask' } },
      ],
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'system', content: 'Be kind.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'hi' },
            { type: 'image_url', image_url: { url: 'https://a.example/b.png', detail: 'low' } },
          ],
        },
        {
          role: 'assistant',
          content: 'I look.',
          reasoning_content: 'Hm.',
          tool_calls: [toolCall('c0', 'look', '{}'), toolCall('c1', 'team__ask', '{}')],
        },
        { role: 'tool', tool_call_id: 'c0', content: 'seen' },
        { role: 'tool', tool_call_id: 'c1', content: 'asked' },
        {
          role: 'user',
          content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }],
        },
      ],
    })
  })

  it('says once what the policy does not get', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    onTestFinished(() => warned.mockRestore())
    const { proxy } = await answering(['ok', 'ok'])
    const body = {
      ...basic,
      include: ['reasoning.encrypted_content'],
      tools: [{ type: 'web_search' }],
    }
    for (let n = 0; n < 2; n += 1) await ask(proxy, body)
    expect(warned.mock.calls.map(([message]) => message)).toEqual([
      'The agent of rollout r sent what the policy does not get: include, tool "web_search".',
    ])
  })

  it.each([
    ['no input', { input: undefined }, 'input', 'expected a list, got nothing.'],
    [
      'an item whose type is no text',
      { input: [{ type: 5 }] },
      'input[0].type',
      'expected a text, got 5.',
    ],
    [
      'an output without its call',
      { input: [{ type: 'function_call_output', call_id: 'x', output: '' }] },
      'input[0].call_id',
      'expected the call_id of a function_call before it, got "x".',
    ],
    [
      'an unknown role',
      { input: [{ role: 'critic', content: 'No.' }] },
      'input[0].role',
      'expected user, assistant, system or developer, got "critic".',
    ],
    [
      'a choice of a tool that is left out',
      { tools: [{ type: 'web_search' }], tool_choice: { type: 'function', name: 'web_search' } },
      'tool_choice',
      'expected a tool that the policy gets, got "web_search".',
    ],
    ['a stored prompt', { prompt: { id: 'p' } }, 'prompt', 'expected nothing'],
    [
      'an unknown item reference',
      { input: [{ type: 'item_reference', id: 'i' }] },
      'input[0].id',
      'got "i".',
    ],
  ])('with %s is refused, and names the field', async (_, part, param, message) => {
    const { policy, proxy } = await answering([])
    const refused = await ask(proxy, { ...basic, ...part })
    expect([refused.status, refused.headers.get('x-should-retry')]).toEqual([400, 'false'])
    expect(await refused.json()).toEqual({
      error: {
        type: 'invalid_request_error',
        param,
        code: 'invalid_request',
        message: expect.stringContaining(message),
      },
    })
    expect(policy.requests).toHaveLength(0)
  })
})

describe('an answer', () => {
  const tools = [{ type: 'namespace', name: 'team', tools: [{ type: 'function', name: 'ask' }] }]

  it('is a response', async () => {
    const { proxy } = await answering([answer])
    expect(await json(ask(proxy, { ...basic, tools }))).toMatchObject({
      object: 'response',
      status: 'completed',
      model: 'gpt',
      output: [
        { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'Hm. ' }] },
        {
          type: 'message',
          role: 'assistant',
          content: [{ type: 'output_text', text: 'I look. ' }],
        },
        { type: 'function_call', call_id: 'c0', name: 'look', arguments: '{"at": 10.0, "b":1}' },
        {
          type: 'function_call',
          call_id: 'c1',
          name: 'ask',
          namespace: 'team',
          arguments: '{"at": oops',
        },
      ],
      usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
    })
  })

  it('is streamed item by item', async () => {
    const { proxy } = await answering([answer])
    const streamed = await events(ask(proxy, { ...basic, tools, stream: true }))
    expect(streamed.map(({ sequence_number: n }) => n)).toEqual(streamed.map((_, n) => n))
    const steps = streamed.map(({ type, output_index: index }) =>
      typeof index === 'number' ? `${index} ${String(type).replace('response.', '')}` : type,
    )
    expect(steps).toEqual([
      'response.created',
      'response.in_progress',
      '0 output_item.added',
      '0 content_part.added',
      '0 reasoning_text.delta',
      '0 reasoning_text.done',
      '0 content_part.done',
      '0 output_item.done',
      '1 output_item.added',
      '1 content_part.added',
      '1 output_text.delta',
      '1 output_text.done',
      '1 content_part.done',
      '1 output_item.done',
      '2 output_item.added',
      '2 function_call_arguments.delta',
      '2 function_call_arguments.done',
      '2 output_item.done',
      '3 output_item.added',
      '3 function_call_arguments.delta',
      '3 function_call_arguments.done',
      '3 output_item.done',
      'response.completed',
    ])
    const { response } = streamed.at(-1) as { response: Answered }
    expect(response.output).toEqual(
      streamed.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item),
    )
  })

  it('that was cut off is incomplete', async () => {
    const { proxy } = await proxied((response) =>
      sendStream(response, eventStream(chunk({ content: 'a' }), chunk({}, 'length'))),
    )
    expect(await json(ask(proxy, basic))).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
    })
    const streamed = await events(ask(proxy, { ...basic, stream: true }))
    expect(streamed.at(-1)).toMatchObject({ type: 'response.incomplete' })
  })

  it('that the policy refuses, or breaks off, is an error in the form of the API', async () => {
    const { proxy } = await proxied((response, n) => {
      if (n === 1) return sendJson(response, 400, { error: { message: 'too long' } })
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify(chunk({ content: 'hel' }))}\n\n`)
      setTimeout(() => response.destroy(), 20)
    })
    const refused = await ask(proxy, { ...basic, stream: true })
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { code: 'policy_http_error', message: expect.stringContaining('too long') } },
    ])
    const broken = await events(ask(proxy, { ...basic, stream: true }))
    expect(broken.at(-1)).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'policy_stream_error' } },
    })
  })
})

describe('what the policy said', () => {
  // Templates parse arguments, so a call whose arguments are malformed has none.
  const calls = [answer.tool_calls[0], toolCall('c1', 'team__ask', '{}')]
  const recorded = { role: 'assistant', ...answer, tool_calls: calls }
  const results = ['c0', 'c1'].map((id) => ({
    type: 'function_call_output',
    call_id: id,
    output: 'seen',
  }))
  const question = { role: 'user', content: 'hi' }

  it.each([
    ['as items', (output: Answered['output']) => ({ input: [question, ...output, ...results] })],
    [
      'without its reasoning',
      (output: Answered['output']) => ({ input: [question, ...output.slice(1), ...results] }),
    ],
    [
      'by references',
      (output: Answered['output']) => ({
        input: [question, ...output.map(({ id }) => ({ type: 'item_reference', id })), ...results],
      }),
    ],
    [
      'by the id of the response',
      (_: Answered['output'], id: string) => ({ previous_response_id: id, input: results }),
    ],
  ])('goes back word for word %s', async (_, next) => {
    const { policy, proxy, rollout } = await answering([answer, 'done'])
    const first = await json<Answered>(ask(proxy, basic))
    const second = await ask(proxy, { ...basic, ...next(first.output, first.id) })
    expect(second.status).toBe(200)
    expect(policy.requests[1]?.body.messages).toEqual([
      question,
      recorded,
      { role: 'tool', tool_call_id: 'c0', content: 'seen' },
      { role: 'tool', tool_call_id: 'c1', content: 'seen' },
    ])
    const sample = (await rollout.getSamples()).get('main')
    expect(sample?.extraFields).toEqual({})
  })

  it('continues over several responses, without the instructions of earlier ones', async () => {
    const { policy, proxy } = await answering(['one', 'two', 'three'])
    const first = await json<Answered>(ask(proxy, { ...basic, instructions: 'A' }))
    const second = await json<Answered>(
      ask(proxy, { input: 'and', instructions: 'B', previous_response_id: first.id }),
    )
    await ask(proxy, { input: 'then', previous_response_id: second.id })
    expect(policy.requests.map(({ body }) => body.messages.map(({ content }) => content))).toEqual([
      ['A', 'hi'],
      ['B', 'hi', 'one', 'and'],
      ['hi', 'one', 'and', 'two', 'then'],
    ])
  })

  it('is not stored where the client does not want it', async () => {
    const { proxy } = await answering(['one'])
    const { id } = await json<Answered>(ask(proxy, { ...basic, store: false }))
    const refused = await ask(proxy, { input: 'and', previous_response_id: id })
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { code: 'previous_response_not_found', param: 'previous_response_id' } },
    ])
  })
})

it('knows the calls of Codex that are not those of its main agent', async () => {
  const { proxy, rollout } = await answering(['main', 'short', 'helped'])
  const turn = (kind: string): Record<string, string> => ({
    'x-codex-turn-metadata': JSON.stringify({ request_kind: kind }),
  })
  await ask(proxy, basic, turn('turn'))
  await ask(proxy, { ...basic, input: 'Summarise.' }, turn('compaction'))
  const helper = { ...turn('turn'), 'x-openai-subagent': 'collab_spawn' }
  await ask(proxy, { ...basic, input: 'help' }, helper)
  const sample = (await rollout.getSamples()).get('main')
  expect(sample?.calls).toMatchObject([
    { purpose: 'agent', trainable: true },
    { purpose: 'compaction', trainable: false },
    { purpose: 'subagent', trainable: true },
  ])
  expect(sample?.messages.at(-1)).toMatchObject({ content: 'main' })
})
