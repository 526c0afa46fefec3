/** The tokens of a {@link TokenModel}, by id. A text has one token for each letter that is here, and `?` for each other. */
export const modelTokens = [
  '<end>',
  '<system>',
  '<user>',
  '<assistant>',
  '<tool>',
  '?',
  'a',
  'b',
  'c',
  'd',
  '<tool_call>{"name": "read_note", "arguments": {}}</tool_call>',
] as const

const size = modelTokens.length
const window = 6
const [endId, assistantId, callId] = [0, 3, 10]
const letters = [6, 7, 8, 9]
const sayable = [endId, ...letters, callId]
/** How far behind the next token a letter is that is repeated: `a b <end> <assistant>`. */
const copied = 3

/** A sequence of a training, as the Tinker API has it. */
export interface TokenDatum {
  readonly model_input: { readonly chunks: readonly { readonly tokens: readonly number[] }[] }
  readonly loss_fn_inputs: Readonly<Record<string, { readonly data: readonly number[] }>>
}

/**
 * A model of tokens that is small enough to learn in a test. The next token is drawn from the softmax of a linear function
 * of the last six. At first it calls its tool in some answers, and otherwise says letters.
 */
export class TokenModel {
  #weights = new Float64Array((window + 1) * size * size)
  #gradient = new Float64Array(this.#weights.length)
  #steps = 0
  #mean = new Float64Array(this.#weights.length)
  #square = new Float64Array(this.#weights.length)

  constructor() {
    for (const id of modelTokens.keys()) this.#bias(undefined, id, sayable.includes(id) ? 0 : -8)
    this.#bias(assistantId, callId, 2)
    this.#bias(assistantId, endId, -4)
    this.#bias(callId, endId, 8)
    // It repeats the two letters that it read a little more often than others, and then ends.
    for (const id of [endId, ...letters]) this.#weights[(copied * size + id) * size + id] = 2
  }

  /** The same weights, which stay as they are when this model is trained. */
  copy(): TokenModel {
    const copy = new TokenModel()
    copy.#weights = this.#weights.slice()
    copy.#mean = this.#mean.slice()
    copy.#square = this.#square.slice()
    copy.#steps = this.#steps
    return copy
  }

  sample(
    prompt: readonly number[],
    { maxTokens, seed }: { readonly maxTokens: number; readonly seed: number },
  ): { tokens: number[]; logprobs: number[] } {
    const random = randomNumbers(seed)
    const [tokens, logprobs]: [number[], number[]] = [[], []]
    while (tokens.length < maxTokens && tokens.at(-1) !== endId) {
      const next = this.#nextLogprobs([...prompt, ...tokens])
      let rest = random()
      const drawn = next.findIndex((logprob) => (rest -= Math.exp(logprob)) < 0)
      const id = drawn === -1 ? endId : drawn
      tokens.push(id)
      logprobs.push(next[id] ?? 0)
    }
    return { tokens, logprobs }
  }

  /** Adds to the gradient, and returns the logprobs of the targets. */
  forwardBackward(
    { model_input: input, loss_fn_inputs: inputs }: TokenDatum,
    loss: string,
  ): number[] {
    const tokens = input.chunks.flatMap((chunk) => chunk.tokens)
    const of = (name: string, at: number): number | undefined => inputs[name]?.data[at]
    return (inputs['target_tokens']?.data ?? []).map((target, at) => {
      const context = tokens.slice(Math.max(0, at + 1 - window), at + 1)
      const now = this.#nextLogprobs(context)
      const logprob = now[target] ?? 0
      const ratio = Math.exp(logprob - (of('logprobs', at) ?? logprob))
      const advantage = of('advantages', at) ?? 0
      const isClipped = advantage > 0 ? ratio > 1.28 : ratio < 0.8
      const scale =
        loss === 'cross_entropy' ? (of('weights', at) ?? 1) : isClipped ? 0 : ratio * advantage
      if (scale !== 0) {
        for (const row of rowsOf(context)) {
          for (const [id, other] of now.entries()) {
            const slope = (id === target ? 1 : 0) - Math.exp(other)
            this.#gradient[row + id] = (this.#gradient[row + id] ?? 0) + scale * slope
          }
        }
      }
      return logprob
    })
  }

  /** A step of Adam. */
  step({
    learning_rate: rate = 0,
    beta1 = 0.9,
    beta2 = 0.95,
    eps = 1e-12,
  }: Record<string, number>): void {
    this.#steps += 1
    for (const [at, slope] of this.#gradient.entries()) {
      const mean = beta1 * (this.#mean[at] ?? 0) + (1 - beta1) * slope
      const square = beta2 * (this.#square[at] ?? 0) + (1 - beta2) * slope ** 2
      this.#mean[at] = mean
      this.#square[at] = square
      const move = mean / (1 - beta1 ** this.#steps)
      const deviation = Math.sqrt(square / (1 - beta2 ** this.#steps))
      this.#weights[at] = (this.#weights[at] ?? 0) + (rate * move) / (deviation + eps)
    }
    this.#gradient.fill(0)
  }

  /** @param last - the token before it; undefined: any */
  #bias(last: number | undefined, next: number, weight: number): void {
    const row = last === undefined ? window * size : last
    this.#weights[row * size + next] = weight
  }

  #nextLogprobs(context: readonly number[]): number[] {
    const scores = modelTokens.map((_, id) =>
      rowsOf(context).reduce((sum, row) => sum + (this.#weights[row + id] ?? 0), 0),
    )
    const norm = Math.log(scores.reduce((sum, score) => sum + Math.exp(score), 0))
    return scores.map((score) => score - norm)
  }
}

/** Where the weights begin of each token that is read, and of the bias. */
function rowsOf(context: readonly number[]): number[] {
  const read = context.slice(-window).toReversed()
  return [...read.map((id, place) => (place * size + id) * size), window * size * size]
}

/** Numbers from 0 to below 1 (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
