/** Numbers in [0, 1) that are the same for the same seed. */
export type Random = () => number

export function seededRandom(seed: number): Random {
  let state = seed
  return () => {
    state = Math.trunc(state + 0x6d2b79f5)
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = Math.trunc(mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** One of a list. */
export function pick<T>(random: Random, list: readonly T[]): T {
  const index = Math.floor(random() * list.length)
  return list[index] as T
}

/** A whole number from `low` to `high`, both included. */
export function between(random: Random, low: number, high: number): number {
  return Math.floor(low + random() * (high - low + 1))
}
