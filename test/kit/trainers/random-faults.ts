import { randomNumbers } from '../random-numbers.ts'
import type { TrainerFault, TrainerFaults } from './trainer-http.ts'

const kinds: readonly TrainerFault[] = ['reset', 'lost answer', 503]

/**
 * Lets a share of all requests to a fake trainer fail, from 0 to 1: connections that break before or after the
 * request has taken effect, and 503. The same ones for the same seed.
 */
export function randomFaults(share: number, seed = 1): TrainerFaults {
  const next = randomNumbers(seed)
  return () => (next(2 ** 32) < share * 2 ** 32 ? kinds[next(kinds.length)] : undefined)
}
