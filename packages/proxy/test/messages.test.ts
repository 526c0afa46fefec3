import { existsSync } from 'node:fs'
import path from 'node:path'

import { describe, expect, it, onTestFinished, vi } from 'vitest'

import {
  chunk,
  eventStream,
  sendJson,
  sendStream,
  temporaryFolder,
} from '../../../test/kit/index.ts'
import { answering, events, json, post, proxied, sentTo, toolCall } from './proxied.ts'

const user = [{ role: 'user', content: 'hi' }]
const basic = { model: 'claude', max_tokens: 50, messages: user }

/** Calls the Messages API of a proxy. */
const ask = (
  proxy: { anthropicUrl: string },
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Response> => fetch(`${proxy.anthropicUrl}/v1/messages?beta=true`, post(body, headers))

describe('a request', () => {
  it('becomes chat completions', async () => {
    const { policy, proxy } = await answering(['ok'])
    await ask(proxy, {
      ...basic,
      system: [
        { type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } },
        { type: 'text', text: 'Be kind.' },
      ],
      temperature: 0.5,
      top_k: 20,
      stop_sequences: ['END'],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'hi' }] },
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 't1', name: 'look', input: { at: 1 } }],
        },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 't1',
              is_error: true,
              content: [
                { type: 'text', text: 'seen' },
                {
                  type: 'image',
                  source: { type: 'base64', media_type: 'image/png', data: 'AA==' },
                },
              ],
            },
            { type: 'text', text: 'and now?' },
            { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } },
          ],
        },
        { role: 'system', content: 'The time is 3.' },
      ],
      tools: [
        { name: 'look', description: 'Looks.', input_schema: { type: 'object' } },
        { type: 'web_search_20250305', name: 'web_search' },
      ],
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
      output_config: { format: { type: 'json_schema', schema: { type: 'object' } } },
    })
    const { model: _, stream: __, stream_options: ___, ...sent } = sentTo(policy)
    expect(sent).toEqual({
      max_tokens: 50,
      temperature: 0.5,
      top_k: 20,
      stop: ['END'],
      messages: [
        { role: 'system', content: 'Be brief.\nBe kind.' },
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: null, tool_calls: [toolCall('t1', 'look', '{"at":1}')] },
        { role: 'tool', tool_call_id: 't1', content: 'seen' },
        {
          role: 'user',
          content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }],
        },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'and now?' },
            { type: 'image_url', image_url: { url: 'https://a.example/b.png' } },
          ],
        },
        { role: 'system', content: 'The time is 3.' },
      ],
      tools: [
        {
          type: 'function',
          function: { name: 'look', description: 'Looks.', parameters: { type: 'object' } },
        },
      ],
      tool_choice: 'required',
      parallel_tool_calls: false,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'output', schema: { type: 'object' } },
      },
    })
  })

  it('says once what the policy does not get', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    onTestFinished(() => warned.mockRestore())
    const { proxy } = await answering(['ok', 'ok', 'ok'])
    const body = { ...basic, metadata: { user_id: 'u' }, thinking: { type: 'enabled' } }
    for (let n = 0; n < 2; n += 1) await ask(proxy, body)
    await ask(proxy, { ...body, tools: [{ type: 'web_search_20250305', name: 'web_search' }] })
    expect(warned.mock.calls.map(([message]) => message)).toEqual([
      'The agent of rollout r sent what the policy does not get: metadata, thinking.',
      'The agent of rollout r sent what the policy does not get: tool "web_search".',
    ])
  })

  it.each([
    ['no messages', { messages: undefined }, 'messages: expected a list, got nothing.'],
    [
      'another role',
      { messages: [{ role: 'tool', content: '' }] },
      'messages[0].role: expected user',
    ],
    [
      'a block without a type',
      { messages: [{ role: 'user', content: [{ text: 'hi' }] }] },
      'messages[0].content[0].type: expected a text, got nothing.',
    ],
    [
      'a result without its call',
      { messages: [{ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'x' }] }] },
      'messages[0].content[0].tool_use_id: expected the id of a tool_use before it, got "x".',
    ],
    [
      'a text to continue',
      { messages: [...user, { role: 'assistant', content: 'The' }] },
      'messages: expected the last one to be of the user',
    ],
    [
      'an unknown choice',
      { tools: [{ name: 'a', input_schema: {} }], tool_choice: { type: 'some' } },
      'tool_choice.type: expected auto, any, none or tool, got "some".',
    ],
    [
      'a choice of a tool that is left out',
      {
        tools: [
          { name: 'a', input_schema: {} },
          { type: 'web_search_20250305', name: 'web_search' },
        ],
        tool_choice: { type: 'tool', name: 'web_search' },
      },
      'tool_choice: expected a tool that the policy gets, got "web_search".',
    ],
    [
      'the choice of any tool where none is left',
      { tools: [{ type: 'bash_20250124', name: 'bash' }], tool_choice: { type: 'any' } },
      'tool_choice: expected a tool that the policy gets, got "required".',
    ],
  ])('with %s is refused, and names the field', async (_, part, message) => {
    const { policy, proxy } = await answering([])
    const answer = await ask(proxy, { ...basic, ...part })
    expect([answer.status, answer.headers.get('x-should-retry')]).toEqual([400, 'false'])
    expect(await answer.json()).toEqual({
      type: 'error',
      error: { type: 'invalid_request_error', message: expect.stringContaining(message) },
    })
    expect(policy.requests).toHaveLength(0)
  })

  it('may count tokens, or go where nothing is', async () => {
    const { policy, proxy } = await answering([])
    const { anthropicUrl } = proxy
    const counted = await json(fetch(`${anthropicUrl}/v1/messages/count_tokens`, post(basic)))
    expect(counted).toEqual({ input_tokens: expect.any(Number) })
    const version = { 'anthropic-version': '2023-06-01' }
    const models = await fetch(`${anthropicUrl}/v1/models`, { headers: version })
    expect([models.status, await models.json()]).toMatchObject([
      404,
      { type: 'error', error: { type: 'not_found_error' } },
    ])
    const got = await fetch(`${anthropicUrl}/v1/messages`)
    expect([got.status, got.headers.get('allow')]).toEqual([405, 'POST'])
    expect(policy.requests).toHaveLength(0)
  })
})

const answer = {
  reasoning_content: 'Hm. ',
  content: 'I look. ',
  tool_calls: [
    toolCall('call.0', 'look', '{"at": 10.0, "b":1}'),
    toolCall('c1', 'look', '{"at": oops'),
  ],
}

describe('an answer', () => {
  it('is a message', async () => {
    const { proxy } = await answering([answer])
    expect(await json(ask(proxy, basic))).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'claude',
      content: [
        { type: 'thinking', thinking: 'Hm. ', signature: '' },
        { type: 'text', text: 'I look. ' },
        {
          type: 'tool_use',
          id: expect.stringMatching(/^[\w-]+$/),
          name: 'look',
          input: { at: 10, b: 1 },
        },
        // No tool has this name: a client would run the tool with what it can read.
        { type: 'tool_use', id: 'c1', name: 'look_with_malformed_arguments', input: {} },
      ],
      stop_reason: 'tool_use',
      usage: { input_tokens: 3, output_tokens: 2 },
    })
  })

  it('is streamed block by block, with the arguments as the policy wrote them', async () => {
    const { proxy } = await answering([answer])
    const streamed = await events(ask(proxy, { ...basic, stream: true }))
    const steps = streamed.map(({ type, index, content_block: block, delta }) => [
      type,
      index,
      (block as { type: string } | undefined)?.type ?? delta,
    ])
    expect(steps).toEqual([
      ['message_start', undefined, undefined],
      ['content_block_start', 0, 'thinking'],
      ['content_block_delta', 0, { type: 'thinking_delta', thinking: 'Hm. ' }],
      ['content_block_stop', 0, undefined],
      ['content_block_start', 1, 'text'],
      ['content_block_delta', 1, { type: 'text_delta', text: 'I look. ' }],
      ['content_block_stop', 1, undefined],
      ['content_block_start', 2, 'tool_use'],
      ['content_block_delta', 2, { type: 'input_json_delta', partial_json: '{"at": 10.0, "b":1}' }],
      ['content_block_stop', 2, undefined],
      ['content_block_start', 3, 'tool_use'],
      ['content_block_delta', 3, { type: 'input_json_delta', partial_json: '{}' }],
      ['content_block_stop', 3, undefined],
      ['message_delta', undefined, { stop_reason: 'tool_use', stop_sequence: null }],
      ['message_stop', undefined, undefined],
    ])
  })

  it('keeps calls apart whose pieces a server mixes', async () => {
    const piece = (index: number, args: string, id?: string): object =>
      chunk({
        tool_calls: [
          {
            index,
            ...(id ? { id } : {}),
            function: { ...(id ? { name: id } : {}), arguments: args },
          },
        ],
      })
    const { proxy } = await proxied((response) =>
      sendStream(
        response,
        eventStream(
          piece(0, '{"a"', 'one'),
          piece(1, '{"b"', 'two'),
          piece(0, ':1}'),
          chunk({ content: 'Text.' }),
          piece(1, ':2}'),
          chunk({}, 'tool_calls'),
        ),
      ),
    )
    expect(await json(ask(proxy, basic))).toMatchObject({
      content: [
        { name: 'one', input: { a: 1 } },
        { name: 'two', input: { b: 2 } },
        { type: 'text', text: 'Text.' },
      ],
    })
  })

  it.each([
    [{ content: 'a' }, 'stop', {}, 'end_turn'],
    [{ content: 'a' }, 'length', {}, 'max_tokens'],
    [{ refusal: 'No.' }, 'stop', {}, 'refusal'],
    [{ content: 'a' }, 'content_filter', {}, 'refusal'],
    [{ content: 'a' }, 'stop', { stop_reason: 'END' }, 'stop_sequence'],
  ])('of %j with %s stops with %s', async (delta, finish, extra, reason) => {
    const { proxy } = await proxied((response) => {
      const last = chunk({}, finish) as { choices: object[] }
      const choices = [{ ...last.choices[0], ...extra }]
      sendStream(response, eventStream(chunk(delta), { ...last, choices }))
    })
    expect(await json(ask(proxy, basic))).toMatchObject({ stop_reason: reason })
  })

  it('that the policy refuses, or breaks off, is an error in the form of the API', async () => {
    const { proxy } = await proxied((response, n) => {
      if (n === 1) return sendJson(response, 400, { error: { message: 'too long' } })
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify(chunk({ content: 'hel' }))}\n\n`)
      setTimeout(() => response.destroy(), 20)
    })
    const refused = await ask(proxy, { ...basic, stream: true })
    expect([refused.status, await refused.json()]).toEqual([
      400,
      {
        type: 'error',
        error: {
          type: 'invalid_request_error',
          message: expect.stringContaining('too long'),
          code: 'policy_http_error',
        },
      },
    ])
    const broken = await events(ask(proxy, { ...basic, stream: true }))
    expect(broken.at(-1)).toMatchObject({ type: 'error', error: { type: 'api_error' } })
    expect(broken.map(({ type }) => type)).not.toContain('message_stop')
    const whole = await ask(proxy, basic)
    expect([whole.status, whole.headers.get('x-should-retry')]).toEqual([502, 'false'])
  })

  it('is not waited for when the client has gone', async () => {
    const asked = Promise.withResolvers<void>()
    const { policy, proxy } = await proxied(() => asked.resolve())
    const gone = new AbortController()
    const call = fetch(`${proxy.anthropicUrl}/v1/messages`, { ...post(basic), signal: gone.signal })
    await asked.promise
    gone.abort()
    await expect(call).rejects.toThrow('aborted')
    expect(await policy.requests[0]?.closed).toBe(true)
  })
})

describe('what the policy said', () => {
  /** The second request of a client that sends the first answer back like this. */
  async function repeatedAs(content: unknown): Promise<{ sent: unknown; rewrittenAt: unknown }> {
    const { policy, proxy, rollout } = await answering([answer, 'done'])
    const { content: said } = await json<{ content: { id?: string }[] }>(ask(proxy, basic))
    const ids = said.flatMap(({ id }) => (id === undefined ? [] : [id]))
    const assistant = JSON.parse(JSON.stringify(content).replace('ID0', ids[0] ?? '')) as unknown
    const results = ids.map((id) => ({ type: 'tool_result', tool_use_id: id, content: 'seen' }))
    await ask(proxy, {
      ...basic,
      messages: [
        ...user,
        { role: 'assistant', content: assistant },
        { role: 'user', content: results },
      ],
    })
    const sample = (await rollout.getSamples()).get('main')
    return {
      sent: policy.requests[1]?.body.messages[1],
      rewrittenAt: sample?.calls[1]?.rewrittenAt,
    }
  }
  // Templates parse arguments, so a call whose arguments are malformed has none.
  const calls = [answer.tool_calls[0], toolCall('c1', 'look', '{}')]
  const recorded = { role: 'assistant', ...answer, tool_calls: calls }
  const thinking = { type: 'thinking', thinking: 'Hm. ', signature: '' }
  const text = { type: 'text', text: 'I look. ', cache_control: { type: 'ephemeral' } }
  const first = { type: 'tool_use', id: 'ID0', name: 'look', input: { b: 1, at: 10 } }
  const second = { type: 'tool_use', id: 'c1', name: 'look', input: {} }

  it.each([
    ['as it got it, with keys in another order', [thinking, text, first, second]],
    ['without its thinking', [text, first, second]],
    ['without the white space at the end', [{ ...text, text: 'I look.' }, first, second]],
    [
      'with what it made of malformed arguments',
      [
        thinking,
        text,
        first,
        { ...second, input: { __unparsedToolInput: { raw: '{"at": oops', len: 11 } } },
      ],
    ],
  ])('goes back word for word when the client repeats it %s', async (_, content) => {
    expect(await repeatedAs(content)).toEqual({ sent: recorded, rewrittenAt: null })
  })

  it('is replaced by what the client really edited, and the call names the place', async () => {
    const edited = [{ ...text, text: 'I look away.' }, first, second]
    const { sent, rewrittenAt } = await repeatedAs(edited)
    expect(sent).toMatchObject({ content: 'I look away.' })
    expect(rewrittenAt).toBe(1)
  })
})

describe('calls that are not those of the main agent', () => {
  const session = { 'x-claude-code-session-id': 's' }
  const title = { ...basic, output_config: { format: { type: 'json_schema', schema: {} } } }

  it('are known by headers and shape: sub-agents train beside it, titles do not', async () => {
    const { proxy, rollout } = await answering(['main', 'helped', 'A title'])
    await ask(proxy, basic, session)
    const helper = { ...basic, messages: [{ role: 'user', content: 'help' }] }
    await ask(proxy, helper, { 'x-claude-code-agent-id': 'a' })
    await ask(proxy, title, session)
    const sample = (await rollout.getSamples()).get('main')
    expect(sample?.calls).toMatchObject([
      { purpose: 'agent', trainable: true },
      { purpose: 'subagent', trainable: true },
      { purpose: 'title', trainable: false },
    ])
    expect(sample?.messages.at(-1)).toMatchObject({ content: 'main' })
    expect(sample?.extraFields['other_conversations']).toHaveLength(2)
  })

  it('are ordinary calls of clients that are not Claude Code', async () => {
    const { proxy, rollout } = await answering(['{}'])
    await ask(proxy, title)
    expect((await rollout.getSamples()).get('main')?.calls).toMatchObject([{ purpose: 'agent' }])
  })

  it('are what the workflow says, also samples of their own', async () => {
    const { proxy, rollout } = await answering(['main', 'helped', 'ok'], (context) => {
      const helper = context.registerPolicySample('helper')
      return {
        use: ({ api, headers, body }) => {
          if (headers['x-claude-code-agent-id']) return { policy: helper }
          return api === 'messages' && body['max_tokens'] === 1
            ? { purpose: 'probe', trainable: false }
            : undefined
        },
      }
    })
    await ask(proxy, basic, session)
    await ask(proxy, basic, { ...session, 'x-claude-code-agent-id': 'a' })
    await ask(proxy, { ...basic, max_tokens: 1 }, session)
    const samples = await rollout.getSamples()
    expect(samples.get('helper')?.calls).toMatchObject([{ purpose: 'agent' }])
    expect(samples.get('main')?.calls).toMatchObject([{ purpose: 'agent' }, { purpose: 'probe' }])
  })
})

it('gives variables for a child process, and nothing of the host', async () => {
  const { proxy } = await answering([])
  const home = path.join(await temporaryFolder(), 'home')
  const env = proxy.env('anthropic', { home })
  expect(env).toMatchObject({
    ANTHROPIC_BASE_URL: proxy.origin,
    ANTHROPIC_API_KEY: proxy.apiKey,
    HOME: home,
    CLAUDE_CONFIG_DIR: path.join(home, '.claude'),
    CLAUDE_CODE_MAX_RETRIES: '0',
    CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: '1',
  })
  // As long as a policy may be silent by default, and longer.
  expect(Number(env['CLAUDE_STREAM_IDLE_TIMEOUT_MS'])).toBeGreaterThan(600_000)
  expect(Number(env['CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS'])).toBeGreaterThan(600_000)
  expect(env).not.toHaveProperty('CLAUDE_CODE_MAX_OUTPUT_TOKENS')
  const limited = proxy.env('anthropic', { maxOutputTokens: 4096 })
  expect(limited).toMatchObject({ CLAUDE_CODE_MAX_OUTPUT_TOKENS: '4096' })
  expect(existsSync(proxy.env('openai', { home })['CODEX_HOME'] ?? '')).toBe(true)
  expect(proxy.env('openai')).toEqual({
    OPENAI_BASE_URL: `${proxy.origin}/v1`,
    OPENAI_API_KEY: proxy.apiKey,
    CODEX_API_KEY: proxy.apiKey,
  })
})
