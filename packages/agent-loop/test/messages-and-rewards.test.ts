import {
  countMessagesByRole,
  defineReward,
  getLastAssistantContent,
  getMessageContent,
  getMessageRole,
  isAssistantMessage,
  isRewardFunction,
  isToolMessage,
  isUserMessage,
  normalizeStop,
  parseToolCalls,
} from '@osmosis/agent-loop'
import { describe, expect, it } from 'vitest'

describe('messages', () => {
  const messages = [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: 'one' },
    { role: 'assistant', content: null, tool_calls: [{}] },
    { role: 'tool', content: '8' },
    { role: 7 },
  ]

  it('return their role and text', () => {
    expect(messages.map(getMessageRole)).toStrictEqual([
      'user',
      'assistant',
      'assistant',
      'tool',
      'unknown',
    ])
    expect(messages.map(getMessageContent)).toStrictEqual(['hi', 'one', '', '8', ''])
    expect(messages.map(isUserMessage)).toStrictEqual([true, false, false, false, false])
    expect(messages.map(isAssistantMessage)).toStrictEqual([false, true, true, false, false])
    expect(messages.map(isToolMessage)).toStrictEqual([false, false, false, true, false])
    expect(countMessagesByRole(messages)).toStrictEqual({
      user: 1,
      assistant: 2,
      tool: 1,
      unknown: 1,
    })
  })

  it('give their tool calls, also when they have none', () => {
    expect(parseToolCalls({ tool_calls: [{}] as never })).toStrictEqual([{}])
    expect(parseToolCalls({})).toStrictEqual([])
    expect(parseToolCalls({ tool_calls: null as never })).toStrictEqual([])
  })

  it('give the text of the last assistant message', () => {
    expect(getLastAssistantContent(messages.slice(0, 2))).toBe('one')
    expect(getLastAssistantContent(messages)).toBe('')
    expect(getLastAssistantContent([])).toBeNull()
  })
})

it.each<[unknown, string[] | null]>([
  [null, null],
  [undefined, null],
  ['stop', ['stop']],
  ['', ['']],
  [
    ['a', 1],
    ['a', '1'],
  ],
  [[], []],
  [123, null],
  [{}, null],
])('the stop parameter %j goes out as %j', (stop, sent) => {
  expect(normalizeStop(stop)).toStrictEqual(sent)
})

describe('a reward function', () => {
  const exact = defineReward(function exact(solutionStr, groundTruth) {
    return solutionStr.trim() === groundTruth.trim() ? 1 : 0
  })

  it('computes a number from two texts, and keeps its name', () => {
    expect([exact(' 4 ', '4'), exact('5', '4', null), exact.name]).toStrictEqual([1, 0, 'exact'])
  })

  it('is distinguished from other functions, also by another copy of this package', () => {
    const ofAnotherCopy = Object.assign(() => 1, { [Symbol.for('osmosis.reward_function')]: true })
    expect([exact, ofAnotherCopy, () => 1, null, {}].map(isRewardFunction)).toStrictEqual([
      true,
      true,
      false,
      false,
      false,
    ])
    expect(Object.keys(exact)).toStrictEqual([])
  })

  it('receives the rest of the row and additions of platforms', () => {
    const seen: unknown[] = []
    const reward = defineReward((_solution, _truth, extraInfo, others) => {
      seen.push(extraInfo, others)
      return 0.5
    })
    reward('a', 'b')
    reward('a', 'b', { row: 1 }, { data_source: 'x' })
    expect(seen).toStrictEqual([null, {}, { row: 1 }, { data_source: 'x' }])
  })

  it('refuses texts and rewards of another type', async () => {
    expect(() => exact(5 as never, '4')).toThrow("'solutionStr' must be a string, got 5")
    expect(() => exact('5', null as never)).toThrow("'groundTruth' must be a string, got null")
    expect(() => exact('5', '5', [] as never)).toThrow(
      "'extraInfo' must be an object or null, got array",
    )
    const wrong = (value: unknown): (() => number) => defineReward(() => value as number) as never
    for (const [value, shown] of [
      [true, 'boolean'],
      [Number.NaN, 'NaN'],
      [null, 'null'],
    ] as const) {
      expect(() => wrong(value)()).toThrow(TypeError)
      expect(() => defineReward(() => value as never)('a', 'b')).toThrow(
        `must return a finite number, got ${shown}`,
      )
    }
    const late = defineReward(async () => Number.POSITIVE_INFINITY)
    await expect(late('a', 'b')).rejects.toThrow('must return a finite number, got Infinity')
    expect(await defineReward(async () => 0.5)('a', 'b')).toBe(0.5)
  })
})
