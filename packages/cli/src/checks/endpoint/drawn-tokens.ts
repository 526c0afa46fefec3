/** A sampled token, and the most likely ones of its place. */
export interface DrawnToken {
  readonly logprob: number
  readonly top_logprobs?: readonly { readonly logprob: number }[] | null | undefined
}

/** Of twenty that a server lists, one may be the token that it drew: the others are the most likely ones for certain. */
const compared = 19

/** Fewer tokens say too little. */
const leastTokens = 30

/**
 * How far the tokens that a server drew are from the distribution that it states, in standard deviations. Positive where it draws
 * likely tokens too often, as with a lower temperature or a limit (top_k, top_p) of its own. Undefined where too few tokens are known.
 *
 * It is the larger one of two figures, each about a standard normal number where the server draws as it says: the sum of the
 * logprobs, which a temperature changes, and the number of tokens beyond the most likely ones, which a limit changes even when a
 * penalty makes up for the first one. In both, tokens beyond the most likely ones have one value, so the expectations are exact.
 */
export function drawDeviation(tokens: readonly DrawnToken[]): number | undefined {
  const [likelihood, rarity] = [new Deviation(), new Deviation()]
  let count = 0
  for (const { logprob, top_logprobs: listed } of tokens) {
    const top = (listed ?? [])
      .map((one) => one.logprob)
      .toSorted((a, b) => b - a)
      .slice(0, compared)
    const least = top.at(-1)
    if (least === undefined || top.length < compared) continue
    count += 1
    const known = top.filter(Number.isFinite)
    const shares = known.map((one) => Math.exp(one))
    const rest = Math.max(0, 1 - sum(shares))
    const beyond = (known.at(-1) ?? 0) - 1
    likelihood.add(logprob >= least ? logprob : beyond, [...known, beyond], [...shares, rest])
    rarity.add(logprob >= least ? 0 : -1, [0, -1], [1 - rest, rest])
  }
  if (count < leastTokens) return undefined
  const [first, second] = [likelihood.value, rarity.value]
  return Math.abs(first) >= Math.abs(second) ? first : second
}

/** The sum of what was drawn, minus what was expected, in standard deviations. */
class Deviation {
  #difference = 0
  #variance = 0

  add(drawn: number, values: readonly number[], shares: readonly number[]): void {
    const mean = sum(values.map((value, at) => value * (shares[at] ?? 0)))
    const square = sum(values.map((value, at) => value * value * (shares[at] ?? 0)))
    this.#difference += drawn - mean
    this.#variance += Math.max(0, square - mean * mean)
  }

  get value(): number {
    // Where the server is all but certain of each token, nothing can deviate.
    return this.#variance < 1 ? 0 : this.#difference / Math.sqrt(this.#variance)
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
