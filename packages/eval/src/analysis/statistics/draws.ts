/**
 * The chance that none of `k` attempts, drawn from `total` without replacement, is one of `marked`:
 * C(total − marked, k) / C(total, k), as a product of quotients, because the binomials overflow.
 *
 * @throws RangeError when `k` is not between 1 and `total`, or `marked` not between 0 and `total`
 */
function chanceOfNone(total: number, marked: number, k: number): number {
  if (k < 1 || k > total || marked < 0 || marked > total) {
    throw new RangeError(`Cannot draw ${k} of ${total} attempts with ${marked} marked.`)
  }
  let chance = 1
  for (let i = 0; i < k; i++) chance *= Math.max(0, total - marked - i) / (total - i)
  return chance
}

/**
 * The unbiased estimate of the chance that at least one of `k` attempts passes, from `attempts` attempts
 * of which `passed` passed: 1 − C(attempts − passed, k) / C(attempts, k) (Chen et al., arXiv 2107.03374).
 *
 * @throws RangeError when `k` is not between 1 and `attempts`, or `passed` not between 0 and `attempts`
 */
export function passAtK(attempts: number, passed: number, k: number): number {
  return 1 - chanceOfNone(attempts, passed, k)
}

/**
 * The unbiased estimate of the chance that all of `k` attempts pass: C(passed, k) / C(attempts, k)
 * (τ-bench, arXiv 2406.12045).
 *
 * @throws RangeError when `k` is not between 1 and `attempts`, or `passed` not between 0 and `attempts`
 */
export function passHatK(attempts: number, passed: number, k: number): number {
  return chanceOfNone(attempts, attempts - passed, k)
}

/**
 * The unbiased estimate of the chance that a group of `size` attempts at a row has rewards that are not
 * all equal. Attempts without a reward (null) are drawn too but differ from no reward: with n attempts, of
 * which m have no reward and nᵥ the reward v, it is
 * 1 − (Σᵥ C(nᵥ + m, size) − (V − 1) · C(m, size)) / C(n, size) for V different rewards.
 *
 * @throws RangeError when `size` is not between 1 and the number of attempts
 */
export function gradientChance(rewards: readonly (number | null)[], size: number): number {
  const counts = new Map<number, number>()
  let without = 0
  for (const reward of rewards) {
    if (reward === null) without += 1
    else counts.set(reward, (counts.get(reward) ?? 0) + 1)
  }
  const total = rewards.length
  const noReward = chanceOfNone(total, total - without, size)
  // A draw without any reward is counted for each reward, but must count once.
  let equal = noReward
  for (const count of counts.values()) {
    equal += chanceOfNone(total, total - without - count, size) - noReward
  }
  // Rounding may give −1e-17.
  return Math.max(0, 1 - equal)
}
