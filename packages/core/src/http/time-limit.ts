import { startTimer } from './long-timer.ts'

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
