/**
 * The chance that none of `k` attempts, drawn from `total` without putting back, is among `others`:
 * C(total − others, k) / C(total, k). As a product of quotients, because the binomials themselves overflow.
 *
 * @throws RangeError when `k` is not between 1 and `total`, or `others` not between 0 and it
 */
function chanceOfNone(total: number, others: number, k: number): number {
  if (k < 1 || k > total || others < 0 || others > total) {
    throw new RangeError(`${k} of ${total} attempts, of which ${others} count, cannot be drawn.`)
  }
  let chance = 1
  for (let i = 0; i < k; i++) chance *= Math.max(0, total - others - i) / (total - i)
  return chance
}

/**
 * The unbiased estimate of the chance that at least one of `k` attempts passes, from `attempts` attempts
 * of which `passed` passed: 1 − C(attempts − passed, k) / C(attempts, k) (Chen et al., arXiv 2107.03374).
 *
 * @throws RangeError when `k` is not between 1 and `attempts`, or `passed` not between 0 and it
 */
export function passAtK(attempts: number, passed: number, k: number): number {
  return 1 - chanceOfNone(attempts, passed, k)
}

/**
 * The unbiased estimate of the chance that all of `k` attempts pass: C(passed, k) / C(attempts, k)
 * (τ-bench, arXiv 2406.12045).
 *
 * @throws RangeError when `k` is not between 1 and `attempts`, or `passed` not between 0 and it
 */
export function passHatK(attempts: number, passed: number, k: number): number {
  return chanceOfNone(attempts, attempts - passed, k)
}

/**
 * The unbiased estimate of the chance that a group of `size` attempts at a row has rewards that are not
 * all equal: 1 − Σᵥ C(nᵥ, size) / C(n, size), where nᵥ attempts of n have the reward v. With rewards 0
 * and 1 that is 1 − C(c, G)/C(n, G) − C(n−c, G)/C(n, G).
 *
 * @throws RangeError when `size` is not between 1 and the number of rewards
 */
export function gradientChance(rewards: readonly number[], size: number): number {
  const counts = new Map<number, number>()
  for (const reward of rewards) counts.set(reward, (counts.get(reward) ?? 0) + 1)
  let equal = 0
  for (const count of counts.values()) {
    equal += chanceOfNone(rewards.length, rewards.length - count, size)
  }
  // 1 − 1 may come out as −1e-17.
  return Math.max(0, 1 - equal)
}
