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
 * all equal. Attempts without a reward (null) are drawn as well, and decide nothing: with n attempts, of
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
  // A draw without any reward is among those of each reward, and counts once.
  let equal = noReward
  for (const count of counts.values()) {
    equal += chanceOfNone(total, total - without - count, size) - noReward
  }
  // 1 − 1 may come out as −1e-17.
  return Math.max(0, 1 - equal)
}
