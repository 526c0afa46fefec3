/** A number from 0 to below `limit`. */
export type RandomNumbers = (limit: number) => number

/** The same numbers for the same seed. */
export function randomNumbers(seed: number): RandomNumbers {
  let state = seed
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
}
