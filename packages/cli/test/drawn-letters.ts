/** How a server draws. */
export interface Draws {
  /** Divides the logits before a token is drawn, beside the temperature of the request. Default: 1. */
  readonly temperature?: number
  /** Only so many of the most likely tokens are drawn. Default: all. */
  readonly topK?: number
}

/** The logprobs of a vocabulary of 60 tokens, the most likely one first. */
const logits = Array.from({ length: 60 }, (_, at) => -1.2 * Math.log(at + 1))
const norm = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0))
const logprobs = logits.map((logit) => logit - norm)

/**
 * Tokens that a server draws, with their logprobs and those of the most likely ones as vLLM lists them: the drawn token first.
 *
 * @param random - numbers from 0 to 1
 */
export function drawLetters(
  count: number,
  { temperature = 1, topK = 60 }: Draws,
  random: () => number,
): { logprob: number; top_logprobs: { token: string; logprob: number }[] }[] {
  const weights = logits.slice(0, topK).map((logit) => Math.exp(logit / temperature))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return Array.from({ length: count }, () => {
    let left = random() * total
    let drawn = weights.findIndex((weight) => (left -= weight) <= 0)
    if (drawn === -1) drawn = weights.length - 1
    const others = [...logprobs.keys()].filter((at) => at !== drawn)
    const listed = [drawn, ...others.slice(0, 19)]
    return {
      logprob: logprobs[drawn] ?? 0,
      top_logprobs: listed.map((at) => ({ token: String(at), logprob: logprobs[at] ?? 0 })),
    }
  })
}

/** Random numbers that repeat. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
