import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { isPassingStatus, retryAfterMs, retryRequest } from '@osmosis/core/http'
import { z } from 'zod'

import type { ChatModel } from '../chat-model.ts'
import { providerModel } from '../provider/provider-model.ts'
import { endpointModel, type ModelEndpoint } from './endpoint-model.ts'
import { judgePrompt, replyFormat, type JudgedAnswer, type ScoreRange } from './judge-prompt.ts'

/** What a judge said. */
export interface RubricVote {
  readonly score: number
  /** Not empty. */
  readonly explanation: string
}

/** A reply that gives no score. */
class UnusableReply extends Error {
  override readonly name = 'UnusableReply'
}

const longestText = 200

/**
 * Reads the reply of a judge. Thinking and code fences around its JSON are taken away; a score that is no
 * finite number in the range (true, "0.5", 7 of 1) and an empty explanation are refused.
 *
 * @throws UnusableReply
 */
function readReply(text: string, { min, max }: ScoreRange): RubricVote {
  const schema = z.object({
    score: z.number().min(min).max(max),
    explanation: z.string().trim().min(1),
  })
  const { data, error } = schema.safeParse(parse(text))
  if (data !== undefined) return data
  const problems = error.issues.map(
    ({ path, message }) => `${path.join('.') || 'reply'}: ${message}`,
  )
  throw new UnusableReply(`${problems.join('; ')} (in ${shortened(text)})`)
}

function parse(text: string): unknown {
  const said = text.replace(/^[^]*<\/think>/, '').trim()
  const [, fenced = said] = /^```(?:json)?\s*([^]*?)\s*```$/.exec(said) ?? []
  try {
    return JSON.parse(fenced)
  } catch {
    throw new UnusableReply(`it is not JSON: ${shortened(text)}`)
  }
}

function shortened(text: string): string {
  return JSON.stringify(text.length > longestText ? `${text.slice(0, longestText)}…` : text)
}

/** What {@link evaluateRubric} judges, and who judges. */
export interface RubricOptions extends JudgedAnswer {
  /**
   * The judge: `<provider>/<model>` (see `providerModel`), a model of an OpenAI-compatible endpoint, or one
   * that the caller has opened and closes; that is worth it for many answers.
   */
  readonly model: string | ModelEndpoint | ChatModel
  /** Of a model by name. Default: the variable of the provider's package. */
  readonly apiKey?: string | undefined
  /** How often the judge is asked; the score is the median. Default: 1. */
  readonly votes?: number
  /** Default: 0. */
  readonly scoreMin?: number
  /** Default: 1. */
  readonly scoreMax?: number
  /** Stands in front of the instructions of the judge. */
  readonly systemPrompt?: string
  readonly signal?: AbortSignal
  /** How long one reply may take. Milliseconds. Default: 120,000. */
  readonly timeoutMs?: number
}

/** A score by a rubric. */
export interface RubricScore {
  /** The median of the votes. */
  readonly score: number
  /** Of the vote nearest to the score. */
  readonly explanation: string
  readonly votes: readonly RubricVote[]
}

const retries = 2

/** What a policy of rollouts expects besides; a judge belongs to none. */
const noRollout = { rolloutId: '', sampleId: '', headers: {} }

/**
 * Lets a model score an answer by a rubric. For graders and eval functions: what the judge is asked never
 * goes to the policy under training, carries nothing of the rollout and is no sample.
 *
 * What the answer says cannot reach the judge as an instruction: it stands between delimiters that are
 * drawn for each request. A reply without a usable score, an overloaded judge and a lost connection are
 * asked again twice.
 *
 * @throws OsmosisError with code `judge_failed` when there is no score, with `status` when the judge
 * refused; `invalid_config` for a model by name, see `providerModel`; TypeError for an empty rubric,
 * RangeError for a range or a number of votes that is none; the reason of `signal` when aborted
 */
export async function evaluateRubric(options: RubricOptions): Promise<RubricScore> {
  const { votes: count = 1, scoreMin: min = 0, scoreMax: max = 1 } = options
  if (typeof options.rubric !== 'string' || options.rubric.trim() === '') {
    throw new TypeError('The rubric must be a text that is not empty.')
  }
  if (typeof options.answer !== 'string') throw new TypeError('The answer must be a text.')
  if (!(Number.isFinite(min) && Number.isFinite(max) && min < max)) {
    throw new RangeError(`scoreMin must be less than scoreMax, got ${min} and ${max}.`)
  }
  if (!(Number.isSafeInteger(count) && count >= 1)) {
    throw new RangeError(`votes must be a positive integer, got ${count}.`)
  }
  const { model: given } = options
  const isOpen = typeof given === 'object' && 'respond' in given
  const judge = isOpen ? given : await openJudge(given, options.apiKey)
  try {
    const range = { min, max }
    const asked = Array.from({ length: count }, () => vote(judge, options, range))
    const votes = await Promise.all(asked)
    const score = median(votes.map((one) => one.score))
    const nearest = votes.toSorted((a, b) => Math.abs(a.score - score) - Math.abs(b.score - score))
    return { score, explanation: nearest[0]?.explanation ?? '', votes }
  } finally {
    if (!isOpen) await judge.close?.()
  }
}

async function openJudge(
  model: string | ModelEndpoint,
  apiKey: string | undefined,
): Promise<ChatModel> {
  return typeof model === 'string' ? providerModel(model, { apiKey }) : endpointModel(model)
}

async function vote(
  judge: ChatModel,
  options: RubricOptions,
  range: ScoreRange,
): Promise<RubricVote> {
  const { signal } = options
  // Several votes that are drawn at temperature 0 would be one.
  const fixed = (options.votes ?? 1) === 1 ? { temperature: 0 } : {}
  const params: Params = { response_format: replyFormat, ...fixed }
  try {
    return await retryRequest(() => ask(judge, params, options, range), {
      retries,
      minDelayMs: 100,
      maxDelayMs: 5_000,
      signal,
      isRetryable: (error) => isOsmosisError(error) && error.shouldRetry === true,
    })
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  }
}

interface Params {
  response_format?: typeof replyFormat
  temperature?: number
}

async function ask(
  judge: ChatModel,
  params: Params,
  options: RubricOptions,
  range: ScoreRange,
): Promise<RubricVote> {
  const { signal, timeoutMs = 120_000 } = options
  const limits = [AbortSignal.timeout(timeoutMs), signal].filter((limit) => limit !== undefined)
  const messages = judgePrompt(options, range, options.systemPrompt)
  let answer: Response
  let text: string
  try {
    const body = { messages, ...params, stream: false }
    answer = await judge.respond({ ...noRollout, body, signal: AbortSignal.any(limits) })
    text = await answer.text()
  } catch (error) {
    signal?.throwIfAborted()
    throw failed(judge, errorMessage(error), { shouldRetry: true })
  }
  if (!answer.ok) {
    if (answer.status === 400 && dropRefused(params, text))
      return ask(judge, params, options, range)
    throw failed(judge, `it answered ${answer.status}: ${messageIn(text)}`, {
      status: answer.status,
      shouldRetry: isPassingStatus(answer.status),
      retryAfterMs: retryAfterMs(answer.headers),
    })
  }
  try {
    return readReply(contentIn(text), range)
  } catch (error) {
    if (!(error instanceof UnusableReply)) throw error
    throw failed(judge, error.message, { shouldRetry: true })
  }
}

/** Not every server can be held to a schema, and not every model has a temperature. */
function dropRefused(params: Params, text: string): boolean {
  const names = [
    ['response_format', /response_format|json_schema|structured/i],
    ['temperature', /temperature/i],
  ] as const
  const refused = names.filter(([name, said]) => name in params && said.test(text))
  for (const [name] of refused) delete params[name]
  return refused.length > 0
}

function contentIn(text: string): string {
  try {
    const body = JSON.parse(text) as { choices?: { message?: { content?: unknown } }[] } | null
    const content = body?.choices?.[0]?.message?.content
    if (typeof content === 'string') return content
  } catch {
    // Said below.
  }
  throw new UnusableReply(`it gave no text: ${text.slice(0, 200)}`)
}

function messageIn(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown } }
    if (typeof error?.message === 'string') return error.message
  } catch {
    // Not JSON: as it is.
  }
  return text.slice(0, 500)
}

function failed(
  judge: ChatModel,
  why: string,
  details: ConstructorParameters<typeof OsmosisError>[2],
): OsmosisError {
  return new OsmosisError('judge_failed', `The judge ${judge.name} gave no score: ${why}`, details)
}

function median(scores: readonly number[]): number {
  const sorted = scores.toSorted((a, b) => a - b)
  const upper = sorted[Math.floor(sorted.length / 2)] ?? 0
  const lower = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0
  return (lower + upper) / 2
}
