/** How much is worked on at once. */
export interface TaskPoolOptions {
  /** Asked before each item, with how many run already. */
  readonly hasRoom: (running: number) => boolean
  readonly halted: () => boolean
}

/**
 * Works through `items` in order, as many at a time as there is room for, until they are done or `halted`
 * says stop. What `work` resolves to comes behind all others. Resolves when nothing runs any more; rejects
 * with the first error of `work`, after which no item is started, once the others have settled.
 */
export async function runWorkerPool<T extends object>(
  items: Iterable<T>,
  work: (item: T) => Promise<T | undefined>,
  { hasRoom, halted }: TaskPoolOptions,
): Promise<void> {
  const queue = items[Symbol.iterator]()
  const again: T[] = []
  let running = 0
  let failure: { readonly reason: unknown } | undefined
  let ended = Promise.withResolvers<void>()

  async function run(item: T): Promise<void> {
    running += 1
    try {
      const back = await work(item)
      if (back !== undefined) again.push(back)
    } catch (reason) {
      failure ??= { reason }
    }
    running -= 1
    ended.resolve()
  }

  function next(): T | undefined {
    if (failure !== undefined || !hasRoom(running) || halted()) return undefined
    const taken = queue.next()
    return taken.done ? again.shift() : taken.value
  }

  for (;;) {
    ended = Promise.withResolvers<void>()
    for (let item = next(); item !== undefined; item = next()) run(item).catch(ended.reject)
    if (running === 0) break
    await ended.promise
  }
  if (failure) throw failure.reason
}
