/** A number from 0 to below 1 that seed and name alone decide, whatever else was asked before. */
export type Chance = (...name: readonly (string | number)[]) => number

/** Every seed has chances of its own. */
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

/** Picks by weight, for a chance; what is left of 1 is the default. */
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
