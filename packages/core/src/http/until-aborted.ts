import { startTimer } from './long-timer.ts'

/**
 * Settles with `work`, or with the reason of `signal` as soon as that aborts, even if the work
 * never settles. Work is not started when the signal is aborted already, and what it throws after the
 * abort is replaced by the reason: whatever code made of the abort, that is why it ended.
 *
 * @param clock - asked once the work has succeeded; what it throws counts instead
 */
export function untilAborted<T>(
  signal: AbortSignal,
  work: () => Promise<T>,
  clock?: { throwIfLate(): void },
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    signal.throwIfAborted()
    const onAbort = (): void => reject(signal.reason as Error)
    const fail = (error: unknown): void => {
      signal.removeEventListener('abort', onAbort)
      reject((signal.aborted ? signal.reason : error) as Error)
    }
    const succeed = (value: T): void => {
      try {
        clock?.throwIfLate()
      } catch (error) {
        fail(error)
        return
      }
      signal.removeEventListener('abort', onAbort)
      resolve(value)
    }
    // Once, for work that never settles.
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      work().then(succeed, fail)
    } catch (error) {
      fail(error)
    }
  })
}

/**
 * Runs `work` with a signal that aborts after `limitMs` or with `outer`, whichever comes first,
 * and leaves neither a timer nor a listener behind.
 *
 * @throws the reason of `outer`, or what `late` gives when the time is up
 */
export async function withTimeLimit<T>(
  { limitMs, outer, late }: { limitMs: number; outer: AbortSignal; late: () => Error },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  outer.throwIfAborted()
  const attempt = new AbortController()
  const onAbort = (): void => attempt.abort(outer.reason)
  const timer = startTimer(limitMs, () => attempt.abort(late()))
  outer.addEventListener('abort', onAbort, { once: true })
  try {
    return await work(attempt.signal)
  } catch (error) {
    attempt.signal.throwIfAborted()
    throw error
  } finally {
    timer.clear()
    outer.removeEventListener('abort', onAbort)
  }
}
