/**
 * The same object with other methods, for code that observes a backend or an observer. What is not replaced works as
 * before: private fields, and methods that are missing.
 */
export function replaceMethods<T extends object>(target: T, methods: Partial<T>): T {
  return new Proxy(target, {
    get(own, name) {
      const replacement: unknown = Reflect.get(methods, name)
      if (replacement !== undefined) return replacement
      const value: unknown = Reflect.get(own, name, own)
      return typeof value === 'function' ? (value.bind(own) as unknown) : value
    },
  })
}
