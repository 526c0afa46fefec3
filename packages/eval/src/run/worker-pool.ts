/**
 * Works through `items` in order, at most `size` at a time, until they are done or `halted` says
 * stop. Resolves when nothing runs any more; rejects with the first error of `work`, after which no
 * item is started, once the others have settled.
 */
export async function runWorkerPool<T>(
  items: Iterable<T>,
  work: (item: T) => Promise<void>,
  options: { size: number; halted: () => boolean },
): Promise<void> {
  // Shared by all workers: each takes the next item when it is free.
  const queue = items[Symbol.iterator]()
  let broken = false
  async function worker(): Promise<void> {
    while (!broken && !options.halted()) {
      const next = queue.next()
      if (next.done) return
      try {
        await work(next.value)
      } catch (error) {
        broken = true
        throw error
      }
    }
  }
  const workers = await Promise.allSettled(Array.from({ length: options.size }, worker))
  const failure = workers.find((outcome) => outcome.status === 'rejected')
  if (failure) throw failure.reason
}
