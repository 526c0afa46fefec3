import { OsmosisError } from '../errors.ts'
import { bearer } from '../http/bearer.ts'
import { answerConstraints } from './answer-constraints.ts'
import type { ChatCompletionRequest } from './chat-completion.ts'
import type { PolicyCallOptions } from './policy-stream.ts'

/** The model name of every request, unless the rollout has another one. */
export const policyModelName = 'osmosis-rollout'

/** What the endpoint of a rollout's policy expects. */
export interface PolicyWire {
  /**
   * Whether it streams. False: every call requests one JSON answer, which callers of
   * `PolicyClient.stream` get as one chunk. Default: true.
   */
  readonly stream?: boolean | undefined
  /** The model of requests. Default: `osmosis-rollout`. */
  readonly model?: string | undefined
  /**
   * Settings of the trainer, such as `temperature`, under their names in a request. They override the
   * agent's; `messages`, `n`, `stream`, `stream_options` and `model` are ignored here.
   */
  readonly body?: Readonly<Record<string, unknown>> | undefined
  /**
   * Whether the URL is this rollout's own: 404 and 410 mean that the trainer withdrew the rollout, which
   * ends it with code `withdrawn`; not a 404 that says that there is no such model. Default: false.
   */
  readonly ownRoute?: boolean | undefined
  /** Base URL for calls that are not training data. Default: that of the rollout. */
  readonly auxiliaryUrl?: string | undefined
}

/** {@link PolicyWire} with its defaults. */
export interface WireSettings extends PolicyWire {
  readonly stream: boolean
  readonly model: string
  /** Without `stream_options`. */
  readonly body: Readonly<Record<string, unknown>>
}

const defaultSettings: WireSettings = { stream: true, model: policyModelName, body: {} }

export function wireSettings(given: PolicyWire | undefined): WireSettings {
  if (given === undefined) return defaultSettings
  const { stream, model, body = {}, ...wire } = given
  const { stream_options: _, ...settings } = body
  return { ...wire, stream: stream ?? true, model: model ?? policyModelName, body: settings }
}

/** Settings of a request that decide how its answer is sampled. */
const samplingNames = new Set([
  'chat_template_kwargs',
  'enable_thinking',
  'frequency_penalty',
  'logit_bias',
  'max_completion_tokens',
  'max_tokens',
  'min_p',
  'min_tokens',
  'presence_penalty',
  'reasoning_effort',
  'repetition_penalty',
  'seed',
  'stop',
  'stop_token_ids',
  'temperature',
  'thinking_token_budget',
  'top_k',
  'top_p',
])

/** What a model call is for. */
export interface CallUse {
  readonly purpose: string
  readonly trainable: boolean
  /** Name of the agent that makes it; undefined where nobody says it. */
  readonly agent?: string | undefined
}

/** What is recorded about a model call before it is answered. */
export interface CallAbout extends CallUse {
  /**
   * Settings of the request that decide how the answer is sampled; the server decides the others. `constraints` lists what holds
   * it to a form.
   */
  readonly sampling: Readonly<Record<string, unknown>>
  /** The version of the policy that the model of the request names; null when it names none. */
  readonly model: string | null
}

export const agentUse: CallUse = { purpose: 'agent', trainable: true }

export const purposeHeader = 'x-osmosis-purpose'
export const trainableHeader = 'x-osmosis-trainable'
/** The name of an agent, percent-encoded. */
const agentHeader = 'x-osmosis-agent'
/** Headers in which callers without options say what a call is for. */
export const useHeaderNames = [purposeHeader, trainableHeader, agentHeader] as const

/** Of the name of an agent. Characters. */
const maxAgentName = 200

/**
 * What a model call is for: as its options say, else its headers.
 *
 * @throws OsmosisError with code `invalid_request` for a purpose or a header that cannot be sent
 */
export function callUse({ purpose, trainable, agent, headers = {} }: CallUseOptions): CallUse {
  let use = agentUse
  for (const [name, value = ''] of Object.entries(headers)) {
    const lowerCased = name.toLowerCase()
    if (lowerCased === purposeHeader) use = { ...use, purpose: value }
    if (lowerCased === trainableHeader) use = { ...use, trainable: toBoolean(value) }
    if (lowerCased === agentHeader) use = { ...use, agent: decoded(value) }
  }
  if (purpose !== undefined) use = { ...use, purpose }
  if (trainable !== undefined) use = { ...use, trainable }
  if (agent !== undefined) use = { ...use, agent }
  if (use === agentUse || /^[\w.-]{1,64}$/.test(use.purpose)) return use
  throw invalid(
    `The purpose of a model call must be 1 to 64 letters, digits, ".", "_" and "-", got ${JSON.stringify(use.purpose)}.`,
  )
}

type CallUseOptions = Pick<PolicyCallOptions, 'purpose' | 'trainable' | 'agent'> & {
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    // It was not encoded.
    return name
  }
}

function toBoolean(value: string): boolean {
  const lowerCased = value.trim().toLowerCase()
  if (lowerCased === 'true' || lowerCased === 'false') return lowerCased === 'true'
  throw invalid(
    `The header ${trainableHeader} must be true or false, got ${JSON.stringify(value)}.`,
  )
}

/** Headers by which an endpoint knows what a call is for: none for an ordinary call. */
function useHeaders({ purpose, trainable, agent }: CallUse): Record<string, string> {
  return {
    ...(purpose === agentUse.purpose ? {} : { [purposeHeader]: purpose }),
    ...(trainable ? {} : { [trainableHeader]: 'false' }),
    ...(agent
      ? { [agentHeader]: encodeURIComponent(agent.slice(0, maxAgentName).toWellFormed()) }
      : {}),
  }
}

/** @param settings - the body of the call, which may be without messages */
export function aboutCall(settings: Readonly<Record<string, unknown>>, use: CallUse): CallAbout {
  const { model } = settings
  const sampling: Record<string, unknown> = {}
  for (const name of Object.keys(settings)) {
    const value = settings[name]
    if (samplingNames.has(name) && value !== undefined && value !== null) sampling[name] = value
  }
  const constraints = answerConstraints(settings)
  if (constraints.length > 0) sampling['constraints'] = constraints
  return { ...use, sampling, model: versionIn(model) }
}

/**
 * The version of the policy that a model's name tells: a name that is `policy-<number>`, or ends in `/policy-<number>`. Null for
 * every other name: most servers say the same one whatever their weights are, and numbers of their names are sizes and dates.
 */
export function versionIn(model: unknown): string | null {
  return typeof model === 'string' && /(?:^|\/)policy-\d+$/.test(model) ? model : null
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_request', message)
}

/** The body of a request without its messages. */
export function wireRequest(
  { stream, model, body }: WireSettings,
  request: ChatCompletionRequest,
): Omit<ChatCompletionRequest, 'messages'> {
  return {
    ...withoutTokenLimits(request, body),
    ...body,
    // Undefined is not written, and cheaper than removing the key.
    messages: undefined,
    n: request.n,
    model,
    stream,
    stream_options: stream
      ? { ...(request['stream_options'] as object | undefined), include_usage: true }
      : undefined,
  }
}

/** Two names of one setting: either of the trainer's overrides both of the agent's. */
const tokenLimits = ['max_tokens', 'max_completion_tokens']

function withoutTokenLimits(
  request: ChatCompletionRequest,
  body: Readonly<Record<string, unknown>>,
): Partial<ChatCompletionRequest> {
  if (!tokenLimits.some((name) => name in body)) return request
  return Object.fromEntries(Object.entries(request).filter(([name]) => !tokenLimits.includes(name)))
}

/** What every model request of a sample identifies itself with. */
export interface PolicyIdentity {
  readonly rolloutId: string
  readonly sampleId: string
  /** Bearer of the policy endpoint; no `authorization` header without one. */
  readonly apiKey: string | undefined
}

/** Headers that callers cannot set. A framework's own bearer is dropped, also without a key. */
const reservedNames = new Set<string>([
  'content-type',
  'accept',
  'x-rollout-id',
  'x-sample-id',
  'authorization',
  ...useHeaderNames,
])

/** Headers of one model request. Headers of frameworks and users cannot override the identity. */
export function policyHeaders(
  identity: PolicyIdentity,
  extra: Readonly<Record<string, string>> = {},
  use: CallUse = agentUse,
): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: 'text/event-stream, application/json',
    'x-rollout-id': identity.rolloutId,
    'x-sample-id': identity.sampleId,
  }
  const { authorization } = bearer(identity.apiKey)
  if (authorization !== undefined) headers['authorization'] = authorization
  for (const [name, value] of Object.entries(extra)) {
    const lowerCased = name.toLowerCase()
    if (!reservedNames.has(lowerCased)) headers[lowerCased] = value
  }
  return use === agentUse ? headers : { ...headers, ...useHeaders(use) }
}
