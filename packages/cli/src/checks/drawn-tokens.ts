/** A sampled token, and the most likely ones of its place. */
export interface DrawnToken {
  readonly logprob: number
  readonly top_logprobs?: readonly { readonly logprob: number }[] | null | undefined
}

/** Servers list the sampled token among the others, so of twenty these are the most likely ones for certain. */
const compared = 10

/** Fewer tokens say too little. */
const leastTokens = 30

/**
 * How far the tokens that a server drew are from the distribution that it states: the sum of their logprobs, minus what that
 * distribution expects, in standard deviations. Positive where it draws likely tokens too often, as with a lower temperature or a
 * limit (top_k, top_p) of its own. About a standard normal number where it draws as it says; undefined where too few tokens are known.
 *
 * Tokens beyond the most likely ones count as one, whose value is that of the last of them less 1, so the expectation is exact.
 */
export function drawDeviation(tokens: readonly DrawnToken[]): number | undefined {
  let [difference, variance, count] = [0, 0, 0]
  for (const { logprob, top_logprobs: listed } of tokens) {
    const top = (listed ?? [])
      .map((one) => one.logprob)
      .toSorted((a, b) => b - a)
      .slice(0, compared)
    const least = top.at(-1)
    if (least === undefined || top.length < compared) continue
    count += 1
    const rest = Math.max(least, -50) - 1
    const values = [...top.filter(Number.isFinite), rest]
    const shares = top.filter(Number.isFinite).map((one) => Math.exp(one))
    shares.push(Math.max(0, 1 - sum(shares)))
    const mean = sum(values.map((value, at) => value * (shares[at] ?? 0)))
    const square = sum(values.map((value, at) => value * value * (shares[at] ?? 0)))
    difference += (logprob >= least ? logprob : rest) - mean
    variance += square - mean * mean
  }
  if (count < leastTokens || variance <= 0) return undefined
  return difference / Math.sqrt(variance)
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
