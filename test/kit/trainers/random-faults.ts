import type { TrainerFault, TrainerFaults } from './trainer-http.ts'

const kinds: readonly TrainerFault[] = ['reset', 'lost answer', 503]

/**
 * Lets a share of all requests to a fake trainer fail, from 0 to 1: connections that break before or after the
 * request has taken effect, and 503. The same ones for the same seed.
 */
export function randomFaults(share: number, seed = 1): TrainerFaults {
  let state = seed
  const next = (): number => {
    // A linear congruential generator: as good as this needs, and the same everywhere.
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
  return () => (next() < share ? kinds[Math.floor(next() * kinds.length)] : undefined)
}
