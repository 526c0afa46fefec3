/**
 * The value of a name in this process, made by whoever asks first: several installed copies of a package share what they
 * know of rollouts.
 */
export function sharedByCopies<T>(name: string, make: () => T): T {
  const shared = globalThis as { [key: symbol]: T | undefined }
  return (shared[Symbol.for(`osmosis.${name}`)] ??= make())
}
