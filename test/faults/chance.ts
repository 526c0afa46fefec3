/** A number in [0, 1) that depends only on the seed and the name. */
export type Chance = (...name: readonly (string | number)[]) => number

/** Each seed gives different numbers. */
export function chances(seed: number): Chance {
  return (...name) => {
    let hash = 0x811c9dc5 ^ seed
    for (const character of name.join('|')) {
      hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193)
    }
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
    return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
  }
}

/** Picks a value by weight; the rest of 1 is the weight of the default. */
export function pick<T>(
  chance: number,
  weights: readonly (readonly [T, number])[],
  otherwise: T,
): T {
  let left = chance
  for (const [value, weight] of weights) {
    if (left < weight) return value
    left -= weight
  }
  return otherwise
}
