/**
 * User code that removes all listeners of its process means its own: while `isUserCode` says that it is
 * running, those of now stay. Returns what undoes it.
 */
export function keepListeners(isUserCode: () => boolean): () => void {
  const before = Object.getOwnPropertyDescriptor(process, 'removeAllListeners')
  const { removeAllListeners } = process // oxlint-disable-line typescript/unbound-method -- called on it below
  const kept = new Map(process.eventNames().map((name) => [name, process.rawListeners(name)]))
  const removeOthers = (...only: Parameters<typeof removeAllListeners>): NodeJS.Process => {
    if (!isUserCode()) return removeAllListeners.apply(process, only)
    for (const name of only.length === 0 ? process.eventNames() : only) {
      for (const listener of process.rawListeners(name as string)) {
        if (!kept.get(name as string)?.includes(listener)) {
          process.off(name as string, listener as () => void)
        }
      }
    }
    return process
  }
  Object.assign(process, { removeAllListeners: removeOthers })
  return () => {
    if (process.removeAllListeners !== removeOthers) return
    if (before) Object.defineProperty(process, 'removeAllListeners', before)
    else Reflect.deleteProperty(process, 'removeAllListeners')
  }
}
