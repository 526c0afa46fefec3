/** A model for outside of rollouts, or a function that makes it. */
export type FallbackModel<T> = T | (() => T)

const made = new WeakMap<object, unknown>()

/**
 * For adapters: the model that a user gave for outside of rollouts. A function is called when the model is first needed,
 * and once, however many agents have it, so that rollouts run without the model's key.
 */
export function fallbackModel<T>(given: FallbackModel<T>): T {
  if (typeof given !== 'function') return given
  const make = given as () => T
  if (!made.has(make)) made.set(make, make())
  return made.get(make) as T
}
