/**
 * Runs `work` with a signal that aborts after `limitMs` or with `outer`, whichever comes first,
 * and leaves neither a timer nor a listener behind.
 *
 * @param late - the reason of an abort because of the time
 */
export async function withTimeLimit<T>(
  { limitMs, outer, late }: { limitMs: number; outer: AbortSignal; late: () => Error },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  outer.throwIfAborted()
  const attempt = new AbortController()
  const onAbort = (): void => attempt.abort(outer.reason)
  const timer = setTimeout(() => attempt.abort(late()), limitMs)
  outer.addEventListener('abort', onAbort, { once: true })
  try {
    return await work(attempt.signal)
  } catch (error) {
    attempt.signal.throwIfAborted()
    throw error
  } finally {
    clearTimeout(timer)
    outer.removeEventListener('abort', onAbort)
  }
}
