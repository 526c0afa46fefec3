import { startTimer, timeLimit, untilAborted, wait } from '@osmosis/core/http'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

const day = 24 * 60 * 60_000

describe('a timer', () => {
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  it.each([20, 30 * day, 100 * day])('fires after %i ms and not before', (ms) => {
    const fire = vi.fn<() => void>()
    startTimer(ms, fire)
    vi.advanceTimersByTime(ms - 1)
    expect(fire).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1)
    expect(fire).toHaveBeenCalledOnce()
    expect(vi.getTimerCount()).toBe(0)
  })

  it('never fires after forever, or when it was stopped', () => {
    const fire = vi.fn<() => void>()
    startTimer(Number.POSITIVE_INFINITY, fire)
    expect(vi.getTimerCount()).toBe(0)
    const timer = startTimer(30 * day, fire)
    vi.advanceTimersByTime(29 * day)
    timer.clear()
    timer.clear()
    vi.advanceTimersByTime(2 * day)
    expect(fire).not.toHaveBeenCalled()
  })
})

describe('a limit of time', () => {
  it.each([
    16.1 * 1000,
    2.01 * 1000,
    2 ** 31,
    30 * day,
    9_999_999 * 1000,
    Number.POSITIVE_INFINITY,
  ])('of %d ms is not over at once', async (ms) => {
    const limit = timeLimit(ms)
    await wait(20)
    expect(limit.aborted).toBe(false)
  })

  it.each([0, -1, 0.5])('of %d ms is soon over', async (ms) => {
    const limit = timeLimit(ms)
    await expect.poll(() => limit.aborted).toBe(true)
  })
})

describe('a wait', () => {
  it('is as long as it is said to be', async () => {
    const abort = new AbortController()
    const long = wait(30 * day, abort.signal).then(() => 'long')
    const short = wait(20).then(() => 'short')
    expect(await Promise.race([long, short])).toBe('short')
    abort.abort(new Error('enough'))
    await expect(long).rejects.toThrow('enough')
  })

  it('ends with the reason of an abort', async () => {
    const abort = new AbortController()
    const aborted = wait(30 * day, abort.signal)
    abort.abort(new Error('enough'))
    await expect(aborted).rejects.toThrow('enough')
    await expect(wait(0, abort.signal)).rejects.toThrow('enough')
  })
})

describe('work until an abort', () => {
  it('settles as it settles', async () => {
    const { signal } = new AbortController()
    expect(await untilAborted(signal, async () => 'done')).toBe('done')
    await expect(untilAborted(signal, () => Promise.reject(new Error('failed')))).rejects.toThrow(
      'failed',
    )
  })

  it('ends with the reason, even when it never settles or makes something else of it', async () => {
    const abort = new AbortController()
    const never = untilAborted(abort.signal, () => new Promise(() => undefined))
    const other = untilAborted(abort.signal, async () => {
      await wait(60_000, abort.signal).catch(() => {
        throw new Error('something else')
      })
    })
    abort.abort(new Error('enough'))
    await expect(never).rejects.toThrow('enough')
    await expect(other).rejects.toThrow('enough')
  })

  it('is not started after the abort', async () => {
    const work = vi.fn<() => Promise<void>>()
    await expect(untilAborted(AbortSignal.abort(new Error('enough')), work)).rejects.toThrow(
      'enough',
    )
    expect(work).not.toHaveBeenCalled()
  })
})
