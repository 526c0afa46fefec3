/**
 * Settles with `work`, or with the reason of `signal` as soon as that aborts, even if the work
 * never settles. Work is not begun when the signal is aborted already, and what it throws after the
 * abort is replaced by the reason: whatever code made of the abort, that is why it ended.
 */
export async function untilAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted()
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([work(), aborted.promise])
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
