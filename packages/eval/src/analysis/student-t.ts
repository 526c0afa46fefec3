const quantiles = new Map<number, number>()

/**
 * The 97.5 % quantile of Student's t with a whole number of degrees of freedom: half the width of a
 * 95 % interval in standard errors. Infinite below one degree. Exact to 1e-9.
 *
 * Solves P(|T| ≤ t) = 0.95 by secants. That probability is a finite sum for whole degrees (Abramowitz
 * and Stegun, 26.7.3 and 26.7.4). It is concave in t, so that secants from below approach the root from
 * below; they start at the first terms of the expansion 26.7.5.
 */
export function tQuantile(degrees: number): number {
  if (degrees < 1) return Number.POSITIVE_INFINITY
  const known = quantiles.get(degrees)
  if (known !== undefined) return known
  const z = 1.959963984540054
  let before = z
  let t = z + (z ** 3 + z) / (4 * degrees)
  let missingBefore = 0.95 - centralProbability(before, degrees)
  for (let round = 0; round < 100 && Math.abs(t - before) > 1e-13 * t; round++) {
    const missing = 0.95 - centralProbability(t, degrees)
    const next =
      missing === missingBefore ? t : t + (missing * (t - before)) / (missingBefore - missing)
    before = t
    missingBefore = missing
    t = next
  }
  quantiles.set(degrees, t)
  return t
}

/** P(|T| ≤ t). */
function centralProbability(t: number, degrees: number): number {
  const angle = Math.atan(t / Math.sqrt(degrees))
  const squaredCosine = degrees / (degrees + t * t)
  const isOdd = degrees % 2 === 1
  // The sum of the odd case is sine times cosine times its series, and an angle beside it.
  let term = isOdd ? Math.cos(angle) : 1
  let sum = degrees === 1 ? 0 : term
  for (let factor = isOdd ? 2 : 1; factor <= degrees - 3; factor += 2) {
    term *= (squaredCosine * factor) / (factor + 1)
    sum += term
  }
  const product = Math.sin(angle) * sum
  return isOdd ? (2 / Math.PI) * (angle + product) : product
}
