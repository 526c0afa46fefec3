import { createHash } from 'node:crypto'

/** Numbers from 0 to below 1, the same for the same seed in every process (mulberry32). */
export function randomNumbers(seed: string): () => number {
  let state = createHash('sha256').update(seed).digest().readUInt32BE()
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The items in an order that the random numbers decide. */
export function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const left = [...items]
  const order: T[] = []
  while (left.length > 0) order.push(...left.splice(Math.floor(random() * left.length), 1))
  return order
}
