import {
  createToolErrorResult,
  createToolResult,
  executeToolCalls,
  getToolCallInfo,
  serializeToolResult,
  ToolArgumentError,
  ToolExecutionError,
} from '@osmosis/agent-loop'
import { isOsmosisError } from '@osmosis/core'
import { describe, expect, it } from 'vitest'

import { parseToolArguments } from '../src/tools/tool-call-info.ts'

describe('reading a tool call', () => {
  const call = (args: unknown): unknown => ({
    id: 'c1',
    type: 'function',
    function: { name: 'add', arguments: args },
  })

  it.each<[unknown, object]>([
    ['{"a": 1, "b": [2]}', { a: 1, b: [2] }],
    [{ a: 1 }, { a: 1 }],
    [undefined, {}],
    ['', {}],
    [' ', {}],
  ])('takes %j for its arguments', (args, expected) => {
    expect(getToolCallInfo(call(args))).toStrictEqual({
      toolCallId: 'c1',
      name: 'add',
      args: expected,
    })
  })

  it.each<[unknown, RegExp]>([
    ['{"a": ', /^Invalid JSON arguments: ./],
    ['[1]', /^Expected dict from JSON, got list$/],
    ['null', /^Expected dict from JSON, got NoneType$/],
    ['1.5', /^Expected dict from JSON, got float$/],
    [7, /^Expected str or dict arguments, got int$/],
    [null, /^Expected str or dict arguments, got NoneType$/],
  ])('refuses %j with the message of the Python SDK, and names the call', (args, message) => {
    expect(() => getToolCallInfo(call(args))).toThrow(message)
    expect(() => getToolCallInfo(call(args))).toThrow(
      expect.objectContaining({
        name: 'ToolArgumentError',
        code: 'tool_failed',
        toolCallId: 'c1',
        toolName: 'add',
      }) as Error,
    )
  })

  it('fails with an error that is one of this SDK and one of a tool', () => {
    const failure = new ToolArgumentError('no')
    expect([isOsmosisError(failure), failure instanceof ToolExecutionError]).toStrictEqual([
      true,
      true,
    ])
  })

  it('survives an almost empty call', () => {
    for (const broken of [{}, { function: null }, null, 'call']) {
      expect(getToolCallInfo(broken)).toStrictEqual({ toolCallId: 'unknown', name: '', args: {} })
    }
    expect(parseToolArguments('{"a": 1, "a": 2}')).toStrictEqual({ a: 2 })
  })
})

it('creates messages for results and errors', () => {
  expect(createToolResult('c1', '8')).toStrictEqual({
    role: 'tool',
    content: '8',
    tool_call_id: 'c1',
  })
  expect(createToolErrorResult('c1', 'Division by zero')).toStrictEqual({
    role: 'tool',
    content: 'Error: Division by zero',
    tool_call_id: 'c1',
  })
})

describe('executing tool calls', () => {
  it('makes all of them concurrently and keeps their order', async () => {
    const gates = Array.from({ length: 3 }, () => Promise.withResolvers<void>())
    const results = executeToolCalls([0, 1, 2], async (n) => {
      gates[n]?.resolve()
      // Each waits for all the others.
      await Promise.all(gates.map(async ({ promise }) => promise))
      return n * 10
    })
    expect(await results).toStrictEqual([0, 10, 20])
  })

  it('does nothing without calls', async () => {
    for (const none of [[], null, undefined]) {
      expect(await executeToolCalls(none, () => expect.fail('should not be called'))).toStrictEqual(
        [],
      )
    }
  })

  it('respects the limit of concurrent calls', async () => {
    let running = 0
    let peak = 0
    const results = await executeToolCalls(
      [1, 2, 3, 4, 5],
      async (n) => {
        running += 1
        peak = Math.max(peak, running)
        await Promise.resolve()
        running -= 1
        return n
      },
      { maxConcurrent: 2 },
    )
    expect([results, peak]).toStrictEqual([[1, 2, 3, 4, 5], 2])
    await expect(executeToolCalls([1], () => 1, { maxConcurrent: 0 })).rejects.toThrow(RangeError)
  })

  it('waits for the others when one fails, and throws the first failure in their order', async () => {
    const slow = Promise.withResolvers<void>()
    const ended: number[] = []
    const results = executeToolCalls([1, 2, 3], async (n) => {
      if (n === 2) await slow.promise
      ended.push(n)
      if (n === 3) slow.resolve()
      if (n > 1) throw new Error(`failed ${n}`)
    })
    await expect(results).rejects.toThrow('failed 2')
    expect(ended).toStrictEqual([1, 3, 2])
  })

  it('starts no more calls after an abort', async () => {
    const abort = new AbortController()
    const started: number[] = []
    const results = executeToolCalls(
      [1, 2],
      (n) => {
        started.push(n)
        abort.abort(new Error('enough'))
      },
      { maxConcurrent: 1, signal: abort.signal },
    )
    await expect(results).rejects.toThrow('enough')
    expect(started).toStrictEqual([1])
  })
})

describe('the text of a tool result', () => {
  // Spaces and escapes are those of Python 3.11, numbers those of JavaScript.
  it.each<[unknown, string]>([
    ['text "as it is"', 'text "as it is"'],
    [null, 'null'],
    [undefined, 'null'],
    [true, 'true'],
    [42, '42'],
    [3.5, '3.5'],
    [1e16, '10000000000000000'],
    [1.5e300, '1.5e+300'],
    [Number.NaN, 'null'],
    [[1, 2, 3], '[1, 2, 3]'],
    [{ a: 1, b: 2 }, '{"a": 1, "b": 2}'],
    [{ a: { b: [1, null, false] }, c: undefined }, '{"a": {"b": [1, null, false]}}'],
    [{}, '{}'],
    [['é😀\u007f\n'], '["\\u00e9\\ud83d\\ude00\\u007f\\n"]'],
    [[Number.POSITIVE_INFINITY, 1e-7], '[null, 1e-7]'],
    [{ at: new Date(0) }, '{"at": "1970-01-01T00:00:00.000Z"}'],
  ])('of %j is %s', (value, text) => {
    expect(serializeToolResult(value)).toBe(text)
  })

  it('of a big integer has all its digits', () => {
    expect(serializeToolResult([12345678901234567890n])).toBe('[12345678901234567890]')
  })

  it('is JavaScript JSON if requested', () => {
    expect(serializeToolResult({ a: ['é'] }, { style: 'json' })).toBe('{"a":["é"]}')
    expect(serializeToolResult('é', { style: 'json' })).toBe('é')
  })

  it('is refused for values without a JSON form', () => {
    const cycle: unknown[] = []
    cycle.push(cycle)
    for (const value of [new Map(), new Set(), new Uint8Array(1), () => 1, Symbol('x'), cycle]) {
      expect(() => serializeToolResult(value)).toThrow(TypeError)
    }
    expect(() => serializeToolResult(() => 1, { style: 'json' })).toThrow(TypeError)
  })
})
