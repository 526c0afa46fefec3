import { defineReward, getLastAssistantContent } from '@osmosis/agent-loop'
import { isRewardFunction } from '@osmosis/core'
import { describe, expect, it } from 'vitest'

it('the text of the last assistant message is found', () => {
  const messages = [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: 'one' },
    { role: 'assistant', content: null, tool_calls: [{}] },
    { role: 'tool', content: '8' },
  ]
  expect(getLastAssistantContent(messages.slice(0, 2))).toBe('one')
  expect(getLastAssistantContent(messages)).toBe('')
  expect(getLastAssistantContent([])).toBeNull()
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
    for (const [value, shown] of [
      [true, 'boolean'],
      [Number.NaN, 'NaN'],
      [null, 'null'],
    ] as const) {
      expect(() => defineReward(() => value as never)('a', 'b')).toThrow(
        new TypeError(`the reward function must return a finite number, got ${shown}`),
      )
    }
    const late = defineReward(async () => Number.POSITIVE_INFINITY)
    await expect(late('a', 'b')).rejects.toThrow('must return a finite number, got Infinity')
    expect(await defineReward(async () => 0.5)('a', 'b')).toBe(0.5)
  })
})
