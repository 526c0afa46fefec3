import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import {
  isTransientStatus,
  parseJson,
  retryAfterMs,
  retryRequest,
  timeLimit,
} from '@osmosis/core/http'
import type { ChatMessage } from '@osmosis/core/policy'
import { lastJson, withoutThinking } from '@osmosis/core/scores'
import type { z } from 'zod'

import type { ChatModel } from '../chat-model.ts'
import { providerModel } from '../provider/provider-model.ts'
import { endpointModel, type ModelEndpoint } from './endpoint-model.ts'

/** Who judges, and how long it may take. */
export interface JudgeOptions {
  /**
   * The judge: `<provider>/<model>` (see `providerModel`), a model of an OpenAI-compatible endpoint, or one
   * that the caller has opened and closes; that is worth it for many answers.
   */
  readonly model: string | ModelEndpoint | ChatModel
  /** Of a model by name. Default: the variable of the provider's package. */
  readonly apiKey?: string | undefined
  /** Precedes the instructions of the judge. */
  readonly systemPrompt?: string
  readonly signal?: AbortSignal
  /** How long one reply may take. Milliseconds. Default: 120,000. */
  readonly timeoutMs?: number
  /**
   * How many tokens one reply may have, with the thinking of the judge. Sent as `max_tokens`, or under its newer name to models
   * that know that one alone. A reply that is cut there without a score is a failure, and not requested again. Default: 4096.
   */
  readonly maxTokens?: number
}

/** What limits one reply of a judge. */
type JudgeLimits = Pick<JudgeOptions, 'signal' | 'timeoutMs' | 'maxTokens'>

/** One question to a judge. */
export interface JudgeQuestion<T> {
  /** New ones for each request: the word that delimits their parts is random. */
  readonly messages: () => ChatMessage[]
  /** The `response_format` for models that can be held to a schema. */
  readonly format: object
  /** Every other reply is refused, and requested again. */
  readonly reply: z.ZodType<T>
  /** Default: that of the model. */
  readonly temperature?: number
}

/** A reply that gives no score. */
class UnusableReply extends Error {
  override readonly name = 'UnusableReply'
}

const longestText = 200
const retries = 2

/** What a policy of rollouts expects besides; a judge belongs to none. */
const noRollout = { rolloutId: '', sampleId: '', headers: {} }

/** Calls `use` with the judge, and closes it afterwards unless the caller has opened it. */
export async function withJudge<T>(
  { model, apiKey }: JudgeOptions,
  use: (judge: ChatModel) => Promise<T>,
): Promise<T> {
  if (typeof model === 'object' && 'respond' in model) return use(model)
  const judge =
    typeof model === 'string' ? await providerModel(model, { apiKey }) : endpointModel(model)
  try {
    return await use(judge)
  } finally {
    await judge.close?.()
  }
}

/** Asks for several replies at once. When one of them fails, the signal of `use` ends the others, which nobody would read. */
export async function askTogether<T>(
  { signal }: JudgeLimits,
  use: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const failing = new AbortController()
  const limits = [failing.signal, signal].filter((limit) => limit !== undefined)
  try {
    return await use(AbortSignal.any(limits))
  } catch (error) {
    failing.abort(error)
    throw error
  }
}

/**
 * What the judge replies: the last JSON behind its thinking, as graders read an answer. An unusable reply, an overloaded
 * judge and a lost connection are requested again, twice.
 *
 * @throws OsmosisError with code `judge_failed`, with `status` when the judge refused; RangeError for a limit of tokens that is
 * none, and what `messages` throws; the reason of `signal` when aborted
 */
export async function askJudge<T>(
  judge: ChatModel,
  question: JudgeQuestion<T>,
  options: JudgeLimits,
): Promise<T> {
  const { signal, maxTokens = 4096 } = options
  const { temperature } = question
  if (!(Number.isSafeInteger(maxTokens) && maxTokens >= 1)) {
    throw new RangeError(`maxTokens must be a positive integer, got ${maxTokens}.`)
  }
  const params: Params = {
    max_tokens: maxTokens,
    response_format: question.format,
    ...(temperature === undefined ? {} : { temperature }),
  }
  try {
    return await retryRequest(() => ask(judge, params, question, options), {
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
  max_tokens?: number
  max_completion_tokens?: number
  response_format?: object
  temperature?: number
}

async function ask<T>(
  judge: ChatModel,
  params: Params,
  question: JudgeQuestion<T>,
  options: JudgeLimits,
): Promise<T> {
  const { signal, timeoutMs = 120_000 } = options
  const patience = timeLimit(timeoutMs)
  const limits = [patience, signal].filter((limit) => limit !== undefined)
  // Its errors are the caller's: the judge has not been asked yet.
  const messages = question.messages()
  let answer: Response
  let text: string
  try {
    const body = { messages, ...params, stream: false }
    answer = await judge.respond({ ...noRollout, body, signal: AbortSignal.any(limits) })
    text = await answer.text()
  } catch (error) {
    signal?.throwIfAborted()
    const why = patience.aborted
      ? `it did not reply within its ${timeoutMs / 1000} seconds (timeoutMs)`
      : errorMessage(error)
    throw failed(judge, why, { shouldRetry: true })
  }
  if (!answer.ok) {
    if (answer.status === 400 && changeRefused(params, text)) {
      return ask(judge, params, question, options)
    }
    throw failed(judge, `it answered ${answer.status}: ${messageIn(text)}`, {
      status: answer.status,
      shouldRetry: isTransientStatus(answer.status),
      retryAfterMs: retryAfterMs(answer.headers),
    })
  }
  try {
    return readReply(contentIn(text), question.reply)
  } catch (error) {
    if (!(error instanceof UnusableReply)) throw error
    if (!isCut(text)) throw failed(judge, error.message, { shouldRetry: true })
    // The next reply would most likely be as long.
    const { max_tokens, max_completion_tokens: most = max_tokens } = params
    const why = `its reply was cut at ${most} tokens: raise maxTokens, or let it think less. Of what there is, ${error.message}`
    throw failed(judge, why, { shouldRetry: false })
  }
}

/** @throws UnusableReply */
function readReply<T>(text: string, schema: z.ZodType<T>): T {
  const { data, error } = schema.safeParse(parse(text))
  if (error === undefined) return data
  const problems = error.issues.map(
    ({ path, message }) => `${path.join('.') || 'reply'}: ${message}`,
  )
  throw new UnusableReply(`${problems.join('; ')} (in ${shortened(text)})`)
}

function parse(text: string): unknown {
  const said = lastJson(withoutThinking(text))
  if (said === undefined) throw new UnusableReply(`it is not JSON: ${shortened(text)}`)
  const { value } = said
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key.toLowerCase(), one]))
}

function shortened(text: string): string {
  return JSON.stringify(text.length > longestText ? `${text.slice(0, longestText)}…` : text)
}

/** Not every server can be held to a schema, not every model has a temperature, and the limit of tokens has two names. */
function changeRefused(params: Params, text: string): boolean {
  const names = [
    ['response_format', /response_format|json_schema|structured/i],
    ['temperature', /temperature/i],
  ] as const
  const refused = names.filter(([name, said]) => name in params && said.test(text))
  for (const [name] of refused) delete params[name]
  const { max_tokens: limit } = params
  const isRenamed = limit !== undefined && text.includes('max_completion_tokens')
  if (isRenamed) {
    delete params.max_tokens
    params.max_completion_tokens = limit
  }
  return isRenamed || refused.length > 0
}

interface JudgeChoice {
  readonly message?: { readonly content?: unknown }
  readonly finish_reason?: unknown
}

function choiceIn(text: string): JudgeChoice | undefined {
  const body = parseJson(text) as { choices?: JudgeChoice[] } | null | undefined
  return body?.choices?.[0]
}

/** Whether the limit of tokens ended a reply. */
function isCut(text: string): boolean {
  return choiceIn(text)?.finish_reason === 'length'
}

function contentIn(text: string): string {
  const content = choiceIn(text)?.message?.content
  if (typeof content === 'string') return content
  throw new UnusableReply(`it gave no text: ${text.slice(0, 200)}`)
}

function messageIn(text: string): string {
  const body = parseJson(text) as { error?: { message?: unknown } } | null | undefined
  const message = body?.error?.message
  return typeof message === 'string' ? message : text.slice(0, 500)
}

function failed(
  judge: ChatModel,
  why: string,
  details: ConstructorParameters<typeof OsmosisError>[2],
): OsmosisError {
  return new OsmosisError('judge_failed', `The judge ${judge.name} gave no score: ${why}`, details)
}
