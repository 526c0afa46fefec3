import { type ScriptedAnswer, type ScriptedCall, scriptedPolicy } from '@osmosis/controller'
import type { ChatCompletion, ChatCompletionChunk } from '@osmosis/core/policy'
import { describe, expect, it } from 'vitest'

import { callPolicy } from './fake-rollout-server.ts'
import { startRollout } from './running-rollout.ts'

const everything: ScriptedAnswer = {
  content: 'Let me  see:\n😀 ok',
  reasoning: 'hm, add them',
  toolCalls: [
    { id: 'given', name: 'add', arguments: '{"a": 1.0,\t"b": 12345678901234567890}' },
    { name: 'note', arguments: { text: '😀😀😀😀😀' } },
    { name: 'broken', arguments: '{"a":' },
    { name: 'empty', arguments: '' },
  ],
  usage: { promptTokens: 11, completionTokens: 22 },
  logprobs: [{ token: 'Let', logprob: -0.5 }],
  tokenIds: [1, 2, 3],
}
const usage = { prompt_tokens: 11, completion_tokens: 22, total_tokens: 33 }
const streaming = { stream: true, stream_options: { include_usage: true } }

describe('scriptedPolicy', () => {
  it('hands a script the call', async () => {
    const calls: ScriptedCall[] = []
    await using rollout = await startRollout(
      scriptedPolicy((seen) => {
        calls.push(seen)
        return 'ok'
      }),
      { rolloutId: 'r' },
    )
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
      { role: 'user', content: 'c' },
    ]
    const tools = [{ type: 'function', function: { name: 'f' } }]
    await callPolicy(rollout.order, { messages, tools }, { headers: { 'x-sample-id': 's' } })
    await callPolicy(rollout.order, {})
    expect(calls).toStrictEqual([
      { rolloutId: 'r', sampleId: 's', messages, tools, turn: 1, body: { messages, tools } },
      { rolloutId: 'r', sampleId: '', messages: [], tools: [], turn: 0, body: {} },
    ])
  })

  it('answers one JSON object with everything the script says', async () => {
    await using rollout = await startRollout(scriptedPolicy(() => everything))
    const answer = await callPolicy(rollout.order, { model: 'osmosis-rollout', messages: [] })
    expect(answer.headers.get('content-type')).toBe('application/json')
    expect(await answer.json()).toStrictEqual({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{24}$/) as string,
      object: 'chat.completion',
      created: 0,
      model: 'osmosis-rollout',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: 'Let me  see:\n😀 ok',
            reasoning_content: 'hm, add them',
            tool_calls: [
              call('given', 'add', '{"a": 1.0,\t"b": 12345678901234567890}'),
              call(expect.stringMatching(/^call_[0-9a-f]{24}$/), 'note', '{"text":"😀😀😀😀😀"}'),
              call(expect.stringMatching(/^call_[0-9a-f]{24}$/), 'broken', '{"a":'),
              call(expect.stringMatching(/^call_[0-9a-f]{24}$/), 'empty', ''),
            ],
          },
          finish_reason: 'tool_calls',
          logprobs: { content: [{ token: 'Let', logprob: -0.5 }] },
          token_ids: [1, 2, 3],
        },
      ],
      usage,
    })
  })

  it('streams what it would have answered at once', async () => {
    await using rollout = await startRollout(scriptedPolicy(() => everything))
    const whole = (await (await callPolicy(rollout.order)).json()) as ChatCompletion
    const answer = await callPolicy(rollout.order, { messages: [], ...streaming })
    expect(answer.headers.get('content-type')).toBe('text/event-stream')
    const { chunks, done } = parse(await answer.text())
    expect(done).toBe(true)
    expect(put(chunks)).toStrictEqual(whole)
  })

  it('streams role, thinking, words, pieces of arguments, the finish and the usage', async () => {
    await using rollout = await startRollout(
      scriptedPolicy(() => ({
        content: 'two words',
        reasoning: 'hm',
        toolCalls: [{ id: 'c', name: 'add', arguments: '{"a":12345}' }],
        tokenIds: [7],
        usage: { promptTokens: 11, completionTokens: 22 },
      })),
    )
    const { chunks } = parse(await (await callPolicy(rollout.order, streaming)).text())
    expect(chunks.map(({ choices, ...rest }) => choices[0] ?? rest.usage)).toStrictEqual([
      step({ role: 'assistant', content: '' }),
      step({ reasoning_content: 'hm' }),
      step({ content: 'two ' }),
      step({ content: 'words' }),
      step({
        tool_calls: [
          { index: 0, id: 'c', type: 'function', function: { name: 'add', arguments: '' } },
        ],
      }),
      step({ tool_calls: [{ index: 0, function: { arguments: '{"a":123' } }] }),
      step({ tool_calls: [{ index: 0, function: { arguments: '45}' } }] }),
      { index: 0, delta: {}, finish_reason: 'tool_calls', token_ids: [7] },
      usage,
    ])
  })

  it.each([{ stream: true }, { stream: true, stream_options: { include_usage: false } }])(
    'streams no usage when asked with %j',
    async (body) => {
      await using rollout = await startRollout(scriptedPolicy(() => 'hi'))
      const { chunks } = parse(await (await callPolicy(rollout.order, body)).text())
      expect(chunks.every((chunk) => chunk.choices.length === 1 && !('usage' in chunk))).toBe(true)
    },
  )

  it.each<[ScriptedAnswer, unknown, string]>([
    ['', '', 'stop'],
    ['text', 'text', 'stop'],
    [{}, null, 'stop'],
    [{ toolCalls: [{ name: 'f', arguments: {} }] }, null, 'tool_calls'],
    [{ content: 'cut', finishReason: 'length' }, 'cut', 'length'],
  ])('reads the answer %j', async (said, content, finish) => {
    await using rollout = await startRollout(scriptedPolicy(async () => said))
    const { choices } = (await (await callPolicy(rollout.order)).json()) as ChatCompletion
    const { chunks } = parse(await (await callPolicy(rollout.order, streaming)).text())
    const [streamed] = put(chunks).choices
    expect([choices[0]?.message.content, choices[0]?.finish_reason]).toStrictEqual([
      content,
      finish,
    ])
    expect([streamed?.message.content, streamed?.finish_reason]).toStrictEqual([content, finish])
  })

  it('estimates usage from the length of the texts', async () => {
    await using rollout = await startRollout(scriptedPolicy(() => 'x'.repeat(40)))
    const body = { messages: [{ role: 'user', content: 'y'.repeat(69) }] }
    const { usage: estimated } = (await (
      await callPolicy(rollout.order, body)
    ).json()) as ChatCompletion
    // The messages count as the JSON they are.
    expect(estimated).toStrictEqual({ prompt_tokens: 25, completion_tokens: 10, total_tokens: 35 })
  })

  it('gives the same bytes for the same conversation and other ids for another', async () => {
    await using rollout = await startRollout(
      scriptedPolicy(() => ({ toolCalls: [{ name: 'f', arguments: {} }] })),
    )
    const ask = async (content: string, sample = 'main'): Promise<string> => {
      const headers = { 'x-sample-id': sample }
      const body = { messages: [{ role: 'user', content }], ...streaming }
      return (await callPolicy(rollout.order, body, { headers })).text()
    }
    const texts = [await ask('a'), await ask('a'), await ask('b'), await ask('a', 'other')]
    expect(texts[0]).toBe(texts[1])
    const ids = texts.map((text) => parse(text).chunks[1]?.choices[0]?.delta?.tool_calls?.[0]?.id)
    expect(new Set(ids).size).toBe(3)
  })

  it('answers 500 with the message of a script that throws', async () => {
    await using rollout = await startRollout(
      scriptedPolicy(() => {
        throw new TypeError('no such row')
      }),
    )
    const answer = await callPolicy(rollout.order, streaming)
    expect([answer.status, await answer.json()]).toStrictEqual([
      500,
      { error: { message: 'no such row', type: 'server_error', code: 'script_failed' } },
    ])
  })
})

function call(id: unknown, name: string, text: string): unknown {
  return { id, type: 'function', function: { name, arguments: text } }
}

function step(delta: unknown): unknown {
  return { index: 0, delta, finish_reason: null }
}

function parse(text: string): { chunks: ChatCompletionChunk[]; done: boolean } {
  const events = text.split('\n\n')
  const done = events.splice(-2).join('|') === 'data: [DONE]|'
  return { chunks: events.map((event) => JSON.parse(event.slice(6)) as ChatCompletionChunk), done }
}

/** Puts a stream together again, by the rules of the OpenAI format. */
function put(chunks: ChatCompletionChunk[]): ChatCompletion {
  const completion: ChatCompletion = {
    id: chunks[0]?.id ?? '',
    object: 'chat.completion',
    created: chunks[0]?.created ?? -1,
    model: chunks[0]?.model ?? '',
    choices: [],
  }
  const message: ChatCompletion['choices'][number]['message'] = { role: 'assistant', content: null }
  for (const { choices, usage: counted } of chunks) {
    if (counted) completion.usage = counted
    for (const { delta, finish_reason: finish, logprobs, token_ids: ids } of choices) {
      if (typeof delta?.content === 'string')
        message.content = (message.content ?? '') + delta.content
      if (delta?.reasoning_content) {
        message.reasoning_content = (message.reasoning_content ?? '') + delta.reasoning_content
      }
      for (const { index = 0, id = '', function: called } of delta?.tool_calls ?? []) {
        message.tool_calls ??= []
        message.tool_calls[index] ??= {
          id,
          type: 'function',
          function: { name: '', arguments: '' },
        }
        message.tool_calls[index].function.name += called?.name ?? ''
        message.tool_calls[index].function.arguments += called?.arguments ?? ''
      }
      if (finish) {
        const tokens = { logprobs: logprobs ?? null, ...(ids ? { token_ids: ids } : {}) }
        completion.choices = [{ index: 0, message, finish_reason: finish, ...tokens }]
      }
    }
  }
  return completion
}
