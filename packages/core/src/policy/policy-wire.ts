import { bearer } from '../http/bearer.ts'
import type { ChatCompletionRequest } from './chat-completion.ts'

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
   * ends it with code `withdrawn`. Default: false.
   */
  readonly ownRoute?: boolean | undefined
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
const reservedNames = new Set([
  'content-type',
  'accept',
  'x-rollout-id',
  'x-sample-id',
  'authorization',
])

/** Headers of one model request. Headers of frameworks and users cannot override the identity. */
export function policyHeaders(
  identity: PolicyIdentity,
  extra: Readonly<Record<string, string>> = {},
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
  return headers
}
