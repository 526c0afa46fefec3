import { createHash } from 'node:crypto'

import type { PolicyModel, PolicyRequest } from '@osmosis/controller'
import { answerOf } from '@osmosis/controller/answers'
import type { ChatCompletion, ChatCompletionRequest, ChatMessage } from '@osmosis/core/policy'

import type { TrainedCall } from './trained-call.ts'

/** What a tiny policy reads and writes: a token's id is its place in this list. */
const tinyTokens = [
  '<s>',
  '<system>',
  '<user>',
  '<assistant>',
  '<tool>',
  '<end>',
  '?',
  'a',
  'b',
  'c',
  'd',
  '<call>',
] as const

/** The ids that a tiny policy may say: a letter, or a call of its tool. */
const sayableIds: readonly number[] = ['a', 'b', 'c', 'd', '<call>'].map(idOf)

/** The id of a call of the tool; nothing follows it in an answer. */
const callId = idOf('<call>')

/**
 * A conversation as token ids, up to where the policy's answer begins. A word of the letters a to d has one id for
 * each letter; any other text is one `?`. So an answer that is sent back unchanged has the ids that it was sampled
 * with, and each prompt of a conversation begins with the last one and its answer.
 */
function renderPrompt(messages: readonly ChatMessage[]): number[] {
  const ids = messages.flatMap((message) => [
    idOf(`<${message.role}>`),
    ...textIds(message.content),
    ...(message.tool_calls ?? []).map(() => callId),
    idOf('<end>'),
  ])
  return [idOf('<s>'), ...ids, idOf('<assistant>')]
}

function textIds(content: ChatMessage['content']): number[] {
  const text =
    typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join('')
  const words = text.match(/[^\s"]+/g) ?? []
  const read = words.flatMap((word) =>
    /^[a-d]+$/.test(word) ? Array.from(word, idOf) : [idOf('?')],
  )
  return read.filter((id, at) => id !== idOf('?') || read[at - 1] !== id)
}

function idOf(token: string): number {
  const id = (tinyTokens as readonly string[]).indexOf(token)
  return id === -1 ? tinyTokens.indexOf('?') : id
}

/** A recorded answer, and how much better or worse than its group it was. */
export interface WeighedCall extends Pick<TrainedCall, 'promptIds' | 'ids' | 'logprobs'> {
  readonly advantage: number
}

/** How one update of a {@link TinyPolicy} is made. */
export interface UpdateOptions {
  /** Steps on the same recorded answers. */
  readonly steps: number
  readonly learningRate: number
  /** How far the probability of a token may move from the recorded one before its update stops, as a fraction of it. */
  readonly clip: number
}

/** A policy as JSON. */
export interface SavedTinyPolicy {
  readonly seed: number
  readonly version: number
  readonly weights: readonly number[]
}

const window = 12
const weightCount = window * tinyTokens.length * sayableIds.length
const longestAnswer = 2

/**
 * A model that is small enough to be trained in a test, and is trained like a large one. It reads the last 12
 * tokens of a conversation, and either says two of the letters a to d, or calls the first tool of the request
 * (with the arguments `{}`). Each next token is drawn from the softmax of a linear function of what it reads. At
 * first its weights, and so its answers, are random.
 *
 * Its answers, streamed or not, carry the ids of their prompt and their own, with a logprob for each. It
 * is the model behind a fake trainer (`complete`), or the policy of a controller or an evaluation (`respond`).
 * Its answers depend on the seed, the version, the rollout and the conversation, but not on the order of requests.
 */
export class TinyPolicy implements PolicyModel {
  readonly name = 'tiny-policy'
  readonly #seed: number
  /** By position in the window, token at that position, and next token. */
  readonly #weights: Float64Array
  /** How often this version received each request: an agent that repeats one wants another answer. */
  readonly #asked = new Map<string, number>()
  #version = 0

  /** The seed, a whole number, decides the first weights and everything that is drawn later. */
  constructor({ seed }: { readonly seed: number }) {
    this.#seed = seed
    const random = randomNumbers(`${seed}`)
    this.#weights = Float64Array.from({ length: weightCount }, () => (random() - 0.5) * 0.2)
  }

  /**
   * Loads a saved policy, which gives the same answers.
   *
   * @throws TypeError when it was none
   */
  static from({ seed, version, weights }: SavedTinyPolicy): TinyPolicy {
    if (weights.length !== weightCount) {
      throw new TypeError(`A tiny policy has ${weightCount} weights, not ${weights.length}.`)
    }
    const policy = new TinyPolicy({ seed })
    policy.#weights.set(weights)
    policy.#version = version
    return policy
  }

  /** What `JSON.stringify` writes, and {@link TinyPolicy.from} takes. */
  toJSON(): SavedTinyPolicy {
    return { seed: this.#seed, version: this.#version, weights: [...this.#weights] }
  }

  /** How often it was updated. */
  get version(): number {
    return this.#version
  }

  /**
   * Answers a request. Settings such as the temperature have no effect.
   *
   * @throws TypeError when it calls a tool and the request has none
   */
  readonly complete = (body: ChatCompletionRequest, rolloutId: string): ChatCompletion => {
    const promptIds = renderPrompt(body.messages)
    const question = [this.#seed, this.#version, rolloutId, promptIds.join('.')].join('/')
    const times = this.#asked.get(question) ?? 0
    this.#asked.set(question, times + 1)
    const random = randomNumbers(`${question}/${times}`)

    const ids: number[] = []
    const logprobs: number[] = []
    while (ids.length < longestAnswer && ids.at(-1) !== callId) {
      const next = this.#nextLogprobs([...promptIds, ...ids])
      const chosen = draw(next, random())
      ids.push(sayableIds[chosen] ?? callId)
      logprobs.push(next[chosen] ?? 0)
    }
    return toCompletion(body, {
      id: createHash('sha256').update(`${question}/${times}`).digest('hex').slice(0, 24),
      model: `${this.name}@${this.#version}`,
      promptIds,
      ids,
      logprobs,
    })
  }

  /** Answers as the policy of a controller or an evaluation. */
  async respond({ body, rolloutId }: PolicyRequest): Promise<Response> {
    const request = body as Record<string, unknown> & ChatCompletionRequest
    return answerOf(this.complete(request, rolloutId), request)
  }

  /**
   * Makes recorded answers with a positive advantage more likely and those with a negative one less, by steps
   * against the probabilities that they were *recorded* with. With nothing recorded, nothing changes.
   */
  update(calls: readonly WeighedCall[], { steps, learningRate, clip }: UpdateOptions): void {
    if (calls.length === 0) return
    const tokens = calls.reduce((sum, { ids }) => sum + ids.length, 0)
    for (let step = 0; step < steps; step += 1) {
      const gradient = new Float64Array(this.#weights.length)
      for (const call of calls) this.#addGradient(gradient, call, clip)
      for (const [at, slope] of gradient.entries()) {
        this.#weights[at] = (this.#weights[at] ?? 0) + (learningRate * slope) / tokens
      }
    }
    this.#version += 1
    this.#asked.clear()
  }

  #addGradient(gradient: Float64Array, call: WeighedCall, clip: number): void {
    const { promptIds, ids, logprobs, advantage } = call
    for (const [at, id] of ids.entries()) {
      const context = [...promptIds, ...ids.slice(0, at)]
      const now = this.#nextLogprobs(context)
      const said = sayableIds.indexOf(id)
      const ratio = Math.exp((now[said] ?? 0) - (logprobs[at] ?? 0))
      if (advantage > 0 ? ratio > 1 + clip : ratio < 1 - clip) continue
      for (const row of rowsOf(context)) {
        for (const [option, logprob] of now.entries()) {
          const slope = (option === said ? 1 : 0) - Math.exp(logprob)
          gradient[row + option] = (gradient[row + option] ?? 0) + ratio * advantage * slope
        }
      }
    }
  }

  #nextLogprobs(context: readonly number[]): number[] {
    const rows = rowsOf(context)
    const scores = sayableIds.map((_, option) =>
      rows.reduce((sum, row) => sum + (this.#weights[row + option] ?? 0), 0),
    )
    const norm = Math.log(scores.reduce((sum, score) => sum + Math.exp(score), 0))
    return scores.map((score) => score - norm)
  }
}

/** Where the weights begin of each token that is read. */
function rowsOf(context: readonly number[]): number[] {
  return context
    .slice(-window)
    .toReversed()
    .map((id, place) => (place * tinyTokens.length + id) * sayableIds.length)
}

function draw(logprobs: readonly number[], at: number): number {
  let rest = at
  const chosen = logprobs.findIndex((logprob) => (rest -= Math.exp(logprob)) < 0)
  return chosen === -1 ? logprobs.length - 1 : chosen
}

/** The numbers of a seed, from 0 to below 1: the same in every process. */
function randomNumbers(seed: string): () => number {
  let state = createHash('sha256').update(seed).digest().readUInt32BE()
  // Numerical Recipes' generator, mixed like the end of murmur3: enough for a few draws.
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    let mixed = state
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32
  }
}

/** What a tiny policy has drawn. */
interface SampledAnswer {
  readonly id: string
  readonly model: string
  readonly promptIds: number[]
  readonly ids: number[]
  readonly logprobs: readonly number[]
}

/**
 * A drawn answer as a chat completion, with what vLLM adds for trainers.
 *
 * @throws TypeError when it calls a tool and the request has none
 */
function toCompletion(body: ChatCompletionRequest, answer: SampledAnswer): ChatCompletion {
  const { id, model, promptIds, ids, logprobs } = answer
  const calls = ids.includes(callId)
  const letters = ids.filter((said) => said !== callId).map((said) => tinyTokens[said])
  const call = () => ({
    id: `call_${id}`,
    type: 'function' as const,
    function: { name: firstTool(body), arguments: '{}' },
  })
  return {
    id: `chatcmpl-${id}`,
    object: 'chat.completion',
    created: 0,
    model,
    prompt_token_ids: promptIds,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: letters.length === 0 ? null : letters.join(''),
          ...(calls ? { tool_calls: [call()] } : {}),
        },
        finish_reason: calls ? 'tool_calls' : 'stop',
        logprobs: {
          content: ids.map((said, at) => ({
            token: tinyTokens[said],
            logprob: logprobs[at],
            bytes: null,
            top_logprobs: [],
          })),
        },
        token_ids: ids,
      },
    ],
    usage: {
      prompt_tokens: promptIds.length,
      completion_tokens: ids.length,
      total_tokens: promptIds.length + ids.length,
    },
  }
}

function firstTool({ tools }: ChatCompletionRequest): string {
  const [tool] = Array.isArray(tools) ? (tools as unknown[]) : []
  const name = (tool as { function?: { name?: unknown } } | undefined)?.function?.name
  if (typeof name === 'string') return name
  throw new TypeError('A tiny policy calls the first tool of a request, and this one has no tool.')
}
