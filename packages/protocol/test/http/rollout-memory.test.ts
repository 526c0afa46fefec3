import { RolloutMemory } from '@osmosis/protocol/http'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

it('remembers a rollout while it runs, and for a limited time afterwards', () => {
  const memory = new RolloutMemory<string>({ maxAgeMs: 1000 })
  memory.begin('a', 'digest')
  vi.advanceTimersByTime(5000)
  expect(memory.get('a')).toBe('digest')
  memory.end('a')
  vi.advanceTimersByTime(999)
  expect(memory.get('a')).toBe('digest')
  expect(memory.endedCount).toBe(1)
  vi.advanceTimersByTime(1)
  expect(memory.get('a')).toBeUndefined()
  expect(memory.endedCount).toBe(0)
})

it('stores the record given at the end, also for an unknown rollout', () => {
  const memory = new RolloutMemory<string>()
  memory.begin('a', 'running')
  memory.end('a', 'succeeded')
  memory.end('b', 'failed')
  memory.end('c')
  expect(['a', 'b', 'c'].map((id) => memory.get(id))).toStrictEqual([
    'succeeded',
    'failed',
    undefined,
  ])
})

it('forgets the oldest ended rollout first when there are too many, and never a running one', () => {
  const memory = new RolloutMemory<number>({ maxCount: 2 })
  memory.begin('running', 0)
  for (const id of ['a', 'b', 'a', 'c']) memory.end(id, 1)
  expect(['running', 'a', 'b', 'c'].map((id) => memory.get(id))).toStrictEqual([0, 1, undefined, 1])
})

it('forgets a dropped rollout, and remembers its earlier end', () => {
  const memory = new RolloutMemory<string>()
  memory.end('a', 'first')
  memory.begin('a', 'second')
  expect(memory.get('a')).toBe('second')
  memory.drop('a')
  expect(memory.get('a')).toBe('first')
})

it('counts the age of a rollout that has ended twice from its second end', () => {
  const memory = new RolloutMemory<string>({ maxAgeMs: 1000, maxCount: 2 })
  memory.end('a', 'first')
  vi.advanceTimersByTime(600)
  memory.end('a', 'second')
  memory.end('b', 'other')
  vi.advanceTimersByTime(600)
  expect([memory.get('a'), memory.get('b'), memory.endedCount]).toStrictEqual([
    'second',
    'other',
    2,
  ])
  memory.end('c', 'third')
  expect([memory.get('a'), memory.get('b'), memory.get('c')]).toStrictEqual([
    undefined,
    'other',
    'third',
  ])
  vi.advanceTimersByTime(1000)
  expect(memory.endedCount).toBe(0)
  memory.end('d', 'later')
  expect([memory.get('d'), memory.endedCount]).toStrictEqual(['later', 1])
})

it('counts the age of a rollout from its end, also when that was before it was told', () => {
  const memory = new RolloutMemory<string>({ maxAgeMs: 1000 })
  memory.end('older', 'first', 900)
  memory.end('old', 'second', 400)
  memory.end('new', 'third')
  const known = (): (string | undefined)[] => ['older', 'old', 'new'].map((id) => memory.get(id))
  vi.advanceTimersByTime(99)
  expect(known()).toStrictEqual(['first', 'second', 'third'])
  vi.advanceTimersByTime(1)
  expect(known()).toStrictEqual([undefined, 'second', 'third'])
  vi.advanceTimersByTime(500)
  expect(known()).toStrictEqual([undefined, undefined, 'third'])
  vi.advanceTimersByTime(400)
  expect(known()).toStrictEqual([undefined, undefined, undefined])
})

it('remembers ten thousand for a quarter of an hour when nobody sets a limit', () => {
  const memory = new RolloutMemory<number>()
  for (let n = 0; n < 10_000; n += 1) memory.end(`r${n}`, n)
  expect([memory.get('r0'), memory.get('r9999'), memory.endedCount]).toStrictEqual([
    0, 9999, 10_000,
  ])
  memory.end('one more', 1)
  expect([memory.get('r0'), memory.get('r1'), memory.endedCount]).toStrictEqual([
    undefined,
    1,
    10_000,
  ])
  vi.advanceTimersByTime(15 * 60_000 - 1)
  expect(memory.endedCount).toBe(10_000)
  vi.advanceTimersByTime(1)
  expect(memory.endedCount).toBe(0)
})
