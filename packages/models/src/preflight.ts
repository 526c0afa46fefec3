import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { isAboutKey, isAway, refusalOf, timeLimit, wait } from '@osmosis/core/http'

import type { ChatModel } from './chat-model.ts'

/** What is known of a model that is asked for the first time; all of it for messages. */
export interface PreflightOptions {
  /** Where it is: a base URL, or the name of a provider. */
  readonly endpoint: string
  /** The environment variable with its key; null when no key is sent. */
  readonly keyVariable: string | null
  readonly signal: AbortSignal
  /** Milliseconds. Default: 120,000, so that a server may load its weights. */
  readonly timeoutMs?: number
}

const tokens = 16
const longestText = 500
/** At a server that loads its model. Milliseconds. */
const betweenLooksMs = 500

/**
 * Asks a model once, for 16 tokens, before much is spent on it. Resolves with a warning for trouble that
 * may pass (an overloaded or broken server), with null when it answers.
 *
 * @throws OsmosisError with code `policy_http_error` (with `status`) or `policy_unreachable` when it will
 * not answer anything: wrong key, unknown model or address; the message says what to set. The reason
 * of `signal` when aborted
 */
export async function preflightPolicy(
  policy: ChatModel,
  options: PreflightOptions,
): Promise<string | null> {
  const { signal, timeoutMs = 120_000 } = options
  signal.throwIfAborted()
  const limit = timeLimit(timeoutMs)
  const who = `${policy.name} at ${options.endpoint}`
  try {
    const answer = await firstAnswer(policy, AbortSignal.any([signal, limit]))
    return verdict(answer, who, options)
  } catch (error) {
    signal.throwIfAborted()
    if (isOsmosisError(error)) throw error
    if (!limit.aborted) throw error
    throw new OsmosisError(
      'policy_unreachable',
      `${who} has not answered a first call of ${tokens} tokens within ${timeoutMs / 1000} seconds.`,
    )
  }
}

interface Answer {
  readonly status: number
  readonly text: string
  /** Why the rest of the text never came; undefined for a whole one. */
  readonly brokeOff?: string
}

async function firstAnswer(policy: ChatModel, signal: AbortSignal): Promise<Answer> {
  let first = await ask(policy, 'max_tokens', signal)
  while (isAway(first)) {
    await wait(betweenLooksMs, signal)
    first = await ask(policy, 'max_tokens', signal)
  }
  // Reasoning models of OpenAI know the other name alone, and other servers this one alone.
  const renamed = first.status === 400 && first.text.includes('max_completion_tokens')
  return renamed ? ask(policy, 'max_completion_tokens', signal) : first
}

async function ask(policy: ChatModel, limit: string, signal: AbortSignal): Promise<Answer> {
  const body = {
    messages: [{ role: 'user', content: 'Say ok.' }],
    [limit]: tokens,
    stream: true,
  }
  // What a policy of rollouts expects besides.
  const identity = { rolloutId: 'preflight', sampleId: '', headers: {} }
  const answer = await policy.respond({ ...identity, body, signal })
  const { status } = answer
  try {
    return { status, text: await answer.text() }
  } catch (error) {
    signal.throwIfAborted()
    return { status, text: '', brokeOff: errorMessage(error) }
  }
}

function verdict(
  { status, text, brokeOff }: Answer,
  who: string,
  { keyVariable }: PreflightOptions,
): string | null {
  if (brokeOff !== undefined) {
    return `${who} broke off its answer to a first call of ${tokens} tokens: ${sentence(brokeOff)}`
  }
  if (status >= 200 && status <= 299) {
    if (text.includes('"choices"')) return null
    throw new OsmosisError(
      'policy_http_error',
      `${who} answered a first call with something that is not a chat completion: ${shortened(text)} Check the base URL.`,
      { status },
    )
  }
  const refusal = refusalOf(status, text)
  const { endpointCode: code, endpointMessage = '' } = refusal
  const message = shortened(endpointMessage)
  const said = `${who} refused a first call of ${tokens} tokens with ${status}: ${message}`
  if (code === 'no_chat_completion') {
    throw new OsmosisError('policy_http_error', `${message} Check the base URL.`, { status })
  }
  if (code === 'policy_unreachable') {
    throw new OsmosisError(
      'policy_unreachable',
      `${message} Start what should answer there, or check the base URL.`,
    )
  }
  const spent = status === 402 || code === 'insufficient_quota'
  const isKey = isAboutKey(refusal)
  const isTransient = status === 408 || status === 409 || status === 425 || status === 429
  if (!spent && !isKey && (isTransient || status >= 500)) return said
  const advice = adviceOn(status, { spent, isKey, keyVariable })
  throw new OsmosisError('policy_http_error', `${said} ${advice}`, { status })
}

interface RefusalFacts extends Pick<PreflightOptions, 'keyVariable'> {
  readonly spent: boolean
  readonly isKey: boolean
}

function adviceOn(status: number, { spent, isKey, keyVariable }: RefusalFacts): string {
  if (spent) return 'Its account has nothing left to spend.'
  if (isKey) {
    return keyVariable === null
      ? 'It asks for a key: name the environment variable that holds it, with --api-key-env or api_key_env in osmosis.toml.'
      : `Check the key in the environment variable ${keyVariable}.`
  }
  return status === 404
    ? 'Check the name of the model and the base URL.'
    : 'Check the name of the model.'
}

function shortened(text: string): string {
  return sentence(text.replaceAll(/\s+/g, ' ').trim() || 'nothing')
}

function sentence(text: string): string {
  const short = text.slice(0, longestText)
  return /[.!?]$/.test(short) ? short : `${short}.`
}
