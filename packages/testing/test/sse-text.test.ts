import type { ScriptedAnswer } from '@osmosis/controller'
import type { ChatCompletionChunk } from '@osmosis/core/policy'
import { type Faults, sseOf } from '@osmosis/testing'
import { describe, expect, it } from 'vitest'

const twoCalls: ScriptedAnswer = {
  content: 'let me see',
  toolCalls: [
    { id: 'a', name: 'add', arguments: '{"a": 1.0, "b": 2}' },
    { id: 'b', name: 'now', arguments: {} },
  ],
  usage: { promptTokens: 5, completionTokens: 7 },
}

describe('sseOf', () => {
  it('gives the same text for the same answer', () => {
    expect(sseOf(twoCalls)).toBe(sseOf(twoCalls))
  })

  it('derives ids from the request', () => {
    const request = { messages: [{ role: 'user', content: 'hi' }] }
    expect(sseOf('x', {}, request)).not.toBe(sseOf('x'))
  })

  it('leaves out the role', () => {
    expect(deltas({ omit: ['role'] })[0]).toStrictEqual({ content: 'let ' })
  })

  it('leaves out the usage', () => {
    expect(sseOf(twoCalls, { omit: ['usage'] }).includes('usage')).toBe(false)
    expect(sseOf(twoCalls, { omit: ['usage'], oneFatChunk: true }).includes('usage')).toBe(false)
  })

  it('leaves out the closing [DONE]', () => {
    expect(sseOf(twoCalls)).toBe(`${sseOf(twoCalls, { omit: ['done'] })}data: [DONE]\n\n`)
  })

  it.each([false, true])('leaves out the finish reason (one fat chunk: %s)', (oneFatChunk) => {
    const chunks = parse(sseOf(twoCalls, { omit: ['finish'], oneFatChunk }))
    expect(
      chunks.flatMap(({ choices }) => choices.map((choice) => choice.finish_reason)),
    ).toSatisfy((reasons: unknown[]) => reasons.every((reason) => reason === null))
  })

  it('leaves out every index and then sends each tool call in one piece', () => {
    const text = sseOf(twoCalls, { omit: ['index'] })
    expect(text.includes('"index"')).toBe(false)
    expect(deltas({ omit: ['index'] }).filter((delta) => delta?.tool_calls)).toStrictEqual([
      {
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'add', arguments: '{"a": 1.0, "b": 2}' } },
        ],
      },
      { tool_calls: [{ id: 'b', type: 'function', function: { name: 'now', arguments: '{}' } }] },
    ])
  })

  it('omits only the ids of tool calls', () => {
    expect(sseOf(twoCalls, { omit: ['toolCallIds'] })).toBe(
      sseOf(twoCalls).replaceAll(/"id":"[ab]",/g, ''),
    )
  })

  it('puts everything into one fat chunk without a role', () => {
    expect(parse(sseOf(twoCalls, { oneFatChunk: true }))).toStrictEqual([
      {
        id: expect.any(String) as string,
        object: 'chat.completion.chunk',
        created: 0,
        model: 'scripted',
        choices: [
          {
            index: 0,
            delta: {
              content: 'let me see',
              tool_calls: [
                {
                  index: 0,
                  id: 'a',
                  type: 'function',
                  function: { name: 'add', arguments: '{"a": 1.0, "b": 2}' },
                },
                { index: 1, id: 'b', type: 'function', function: { name: 'now', arguments: '{}' } },
              ],
            },
            finish_reason: 'tool_calls',
            logprobs: null,
          },
        ],
        usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 },
      },
    ])
  })

  it('puts a ping before every event', () => {
    const plain = sseOf('x')
    const pinged = sseOf('x', { comments: true })
    expect(pinged.startsWith(': ping\n\ndata: ')).toBe(true)
    expect(pinged.replaceAll(': ping\n\n', '')).toBe(plain)
  })

  it('ends lines with CRLF', () => {
    expect(sseOf('x', { crlf: true })).toBe(sseOf('x').replaceAll('\n', '\r\n'))
  })

  it.each<[Faults, string]>([
    [{ errorEvent: 'out "of" memory' }, 'event: error\ndata: {"error":"out \\"of\\" memory"}'],
    [{ errorData: 'oom' }, 'data: {"error":{"message":"oom"}}'],
  ])('breaks off in the middle of the content with %j', (faults, error) => {
    const events = sseOf('one two three four', faults).split('\n\n')
    expect(events.slice(-3)).toStrictEqual([error, 'data: [DONE]', ''])
    expect(events.slice(0, -3).join('').includes('"one "')).toBe(true)
    expect(events.slice(0, -3).join('').includes('"four"')).toBe(false)
  })
})

function deltas(faults: Faults): ChatCompletionChunk['choices'][number]['delta'][] {
  return parse(sseOf(twoCalls, faults)).flatMap(({ choices }) => choices.map(({ delta }) => delta))
}

function parse(text: string): ChatCompletionChunk[] {
  return text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice('data: '.length)) as ChatCompletionChunk)
}
