import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream/promises'

import { errorMessage, getRolloutContext, isOsmosisError } from '@osmosis/core'
import { carriesKey, parseJson } from '@osmosis/core/http'
import {
  purposeHeader,
  StreamedAnswer,
  trainableHeader,
  useHeaderNames,
} from '@osmosis/core/policy'

import { AnswerSegments } from './answer-segments.ts'
import { anthropicError, estimatedTokens, messagesDialect } from './anthropic/messages-dialect.ts'
import {
  type Dialect,
  type DialectAnswer,
  type DialectEvent,
  type DialectExchange,
  type DialectFailure,
  conversationAt,
  eventText,
  isGiven,
  listAt,
  objectAt,
  pingComment,
  RefusedField,
  textAt,
  type WireObject,
} from './dialect.ts'
import { withPings } from './keep-alive.ts'
import type {
  PolicyProxy,
  PolicyProxyCall,
  PolicyProxyOptions,
  PolicyProxyUse,
} from './policy-proxy.ts'
import { anthropicEnv, openAiEnv } from './proxy-env.ts'
import { bodyText } from './request-body.ts'
import { openAiError, ResponsesDialect } from './responses/responses-dialect.ts'

type ProxiedPolicy = NonNullable<PolicyProxyUse['policy']>

/**
 * Serves the policy of a sample on the loopback interface, for SDKs that accept a base URL and no `fetch`, and
 * for child processes in any language. It answers OpenAI's chat completions and Responses, and Anthropic's
 * Messages. Requests go through `policy` with all of its guarantees; keys and headers of the caller do not reach it,
 * but for `x-osmosis-purpose`, `x-osmosis-trainable` and `x-osmosis-agent`. What chat completions cannot represent is left out, which a
 * warning of the process says once for each name, or refused (400, with the name of the field) where the rest would
 * mean something else. It closes at the end of the rollout, unless `close` was
 * called before.
 */
export async function createPolicyProxy(
  policy: NonNullable<PolicyProxyUse['policy']>,
  options: PolicyProxyOptions = {},
): Promise<PolicyProxy> {
  const secret = randomUUID()
  const rollout = getRolloutContext()
  rollout?.signal.throwIfAborted()
  const calls = new ProxiedCalls(policy, options, rollout?.rolloutId)
  // Node.js would close a connection that is idle for 5 s, maybe while the next call of an agent with a tool of 5 s is on its way.
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    // A request line can name anything, also what is no URL.
    const pathname = URL.parse(request.url ?? '/', 'http://127.0.0.1')?.pathname ?? '/'
    const isInPath = pathname.startsWith(`/${secret}/`)
    if (!isInPath && !hasKey(request, secret)) response.writeHead(404).end()
    else
      calls
        .answer(isInPath ? pathname.slice(secret.length + 1) : pathname, request, response)
        .catch(() => response.destroy())
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const closed = Promise.withResolvers<void>()
  const stop = (): void => {
    server.close(() => closed.resolve())
    server.closeAllConnections()
  }
  rollout?.signal.addEventListener('abort', stop, { once: true })
  // It may have been aborted while the server began to listen.
  if (rollout?.signal.aborted) {
    stop()
    rollout.signal.throwIfAborted()
  }
  const close = async (): Promise<void> => {
    rollout?.signal.removeEventListener('abort', stop)
    stop()
    return closed.promise
  }
  const origin = `http://127.0.0.1:${port}`
  const anthropicUrl = `${origin}/${secret}`
  const url = `${anthropicUrl}/v1`
  const env: PolicyProxy['env'] = (api, { home, maxOutputTokens } = {}) => {
    const access = { origin, apiKey: secret, home, maxOutputTokens }
    return api === 'anthropic' ? anthropicEnv(access) : openAiEnv(access)
  }
  return { url, anthropicUrl, origin, apiKey: secret, env, close, [Symbol.asyncDispose]: close }
}

/** Clients of OpenAI send their key in one header, those of Anthropic in the other. */
function hasKey({ headers }: IncomingMessage, secret: string): boolean {
  const { authorization, 'x-api-key': key } = headers
  return carriesKey(authorization, secret) || carriesKey(String(key), secret, { bare: true })
}

const chatPath = /\/chat\/completions\/?$/
const messagesPath = '/v1/messages'
const countPath = '/v1/messages/count_tokens'
const responsesPath = '/v1/responses'

class ProxiedCalls {
  readonly #policy: ProxiedPolicy
  readonly #use: NonNullable<PolicyProxyOptions['use']>
  readonly #rolloutId: string | undefined
  readonly #maxBodyBytes: number
  readonly #responses = new ResponsesDialect()
  /** What requests could not say to the policy, reported so far. */
  readonly #leftOut = new Set<string>()

  constructor(
    policy: ProxiedPolicy,
    { use = () => undefined, maxBodyBytes = 64 * 1024 * 1024 }: PolicyProxyOptions,
    rolloutId: string | undefined,
  ) {
    this.#policy = policy
    this.#use = use
    this.#maxBodyBytes = maxBodyBytes
    this.#rolloutId = rolloutId
  }

  async answer(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const disconnected = new AbortController()
    response.once('close', () => disconnected.abort())
    const call = { request, response, signal: disconnected.signal }
    const isAnthropic = path.startsWith(messagesPath) || 'anthropic-version' in request.headers
    const formOf = isAnthropic ? anthropicError : openAiError
    try {
      const isChat = chatPath.test(path)
      if (!isChat && path !== messagesPath && path !== countPath && path !== responsesPath) {
        const message = `The policy answers POST /v1/chat/completions, /v1/responses, /v1/messages and /v1/messages/count_tokens, got ${request.method} ${path}.`
        return send(response, 404, formOf({ status: 404, message }))
      }
      if (request.method !== 'POST') {
        const message = `${path} answers POST only, got ${request.method}.`
        return send(response, 405, formOf({ status: 405, message }), { allow: 'POST' })
      }
      const text = await bodyText(request, this.#maxBodyBytes)
      const body = parsed(text)
      if (isChat) await this.#answerChat(text, body, call)
      else if (path === countPath) send(response, 200, estimatedTokens(body))
      else if (path === messagesPath) await this.#answerIn(messagesDialect, 'messages', body, call)
      else await this.#answerIn(this.#responses, 'responses', body, call)
    } catch (error) {
      if (response.headersSent) throw error
      const failure = failureOf(error)
      send(response, failure.status, formOf(failure))
    }
  }

  async #answerChat(
    body: string,
    chat: WireObject,
    { request, response, signal }: OpenCall,
  ): Promise<void> {
    assertMessages(chat['messages'])
    const { policy, headers } = this.#useOf('chat', request.headers, chat)
    const answered = await policy.fetch(completionsUrl, { method: 'POST', headers, body, signal })
    response.writeHead(answered.status, Object.fromEntries(answered.headers))
    const bytes = answered.body as AsyncIterable<Uint8Array>
    const isStream = answered.headers.get('content-type')?.startsWith('text/event-stream') === true
    // An answer that breaks off breaks off for the caller, too.
    await pipeline(isStream ? withPings(bytes, response, pingComment) : bytes, response)
  }

  async #answerIn(
    dialect: Dialect,
    api: PolicyProxyCall['api'],
    body: WireObject,
    { request, response, signal }: OpenCall,
  ): Promise<void> {
    const { policy, headers } = this.#useOf(api, request.headers, body)
    const { chat, leftOut, answer } = dialect.open(body)
    this.#report(leftOut)
    const sent = JSON.stringify({ ...chat, stream: true })
    const answered = await policy.fetch(completionsUrl, {
      method: 'POST',
      headers,
      body: sent,
      signal,
    })
    if (!answered.ok) {
      const failure = await refusalOf(answered)
      send(response, failure.status, dialect.error(failure))
      return
    }
    const events = answerEvents(answered, chat, answer)
    if (body['stream'] === true) {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
      const failed = (error: unknown): DialectEvent => answer.failed(failureOf(error))
      await pipeline(withPings(eventTexts(events, failed), response, dialect.ping), response)
      return
    }
    for await (const _ of events);
    send(response, 200, answer.whole)
  }

  /** The policy that answers a call, and the headers that say what it is for. */
  #useOf(
    api: PolicyProxyCall['api'],
    headers: IncomingHttpHeaders,
    body: WireObject,
  ): { policy: ProxiedPolicy; headers: Record<string, string> } {
    const call: PolicyProxyCall = { api, headers, body }
    const { purpose, trainable, policy = this.#policy } = this.#use(call) ?? defaultUse(call)
    const sent = useHeaderNames.flatMap((name) => {
      const value = headers[name]
      return typeof value === 'string' ? [[name, value] as const] : []
    })
    return {
      policy,
      headers: {
        'content-type': 'application/json',
        ...Object.fromEntries(sent),
        ...(purpose === undefined ? {} : { [purposeHeader]: purpose }),
        ...(trainable === undefined ? {} : { [trainableHeader]: String(trainable) }),
      },
    }
  }

  #report(leftOut: ReadonlySet<string>): void {
    const room = Math.min(maxNamesPerWarning, maxNames - this.#leftOut.size)
    const names = new Set([...leftOut].map((name) => name.slice(0, maxNameLength)))
    const fresh = [...names].filter((name) => !this.#leftOut.has(name)).slice(0, room)
    if (fresh.length === 0) return
    for (const name of fresh) this.#leftOut.add(name)
    const who =
      this.#rolloutId === undefined ? 'An agent' : `The agent of rollout ${this.#rolloutId}`
    process.emitWarning(
      `${who} sent what the policy does not get: ${fresh.join(', ')}.`,
      'OsmosisWarning',
    )
  }
}

/** An agent may name its fields as it likes: a warning has so many of them, and all warnings of a rollout. */
const maxNamesPerWarning = 50
const maxNames = 1000
const maxNameLength = 120

interface OpenCall {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly signal: AbortSignal
}

/** Policies know the path only. */
const completionsUrl = 'http://127.0.0.1/v1/chat/completions'

function parsed(body: string): WireObject {
  const value = parseJson(body)
  if (value !== undefined) return objectAt(value, 'body')
  throw new RefusedField('body', `expected JSON, got ${JSON.stringify(body.slice(0, 100))}.`)
}

/** The policy gets chat completions as they are. Messages are recorded, and need the shape of messages for that. */
function assertMessages(messages: unknown): void {
  for (const [n, message] of conversationAt(messages, 'messages').entries()) {
    const at = `messages[${n}]`
    const { role, content, tool_calls: calls } = objectAt(message, at)
    textAt(role, `${at}.role`)
    if (Array.isArray(content)) {
      content.forEach((part, m) => objectAt(part, `${at}.content[${m}]`))
    }
    if (!isGiven(calls)) continue
    for (const [m, call] of listAt(calls, `${at}.tool_calls`).entries()) {
      const place = `${at}.tool_calls[${m}]`
      objectAt(objectAt(call, place)['function'], `${place}.function`)
    }
  }
}

function failureOf(error: unknown): DialectFailure {
  const message = errorMessage(error)
  if (error instanceof RefusedField) {
    const { status, code, field } = error
    return { status, message, code, field }
  }
  // The stack is full.
  if (error instanceof RangeError) return { status: 400, message: 'body: nested too deeply.' }
  if (!isOsmosisError(error)) return { status: 502, message }
  return { status: error.code === 'invalid_request' ? 400 : 502, message, code: error.code }
}

/** What a refusal of the policy says. */
async function refusalOf(answered: Response): Promise<DialectFailure> {
  const { error } = (await answered.json()) as { error: Omit<DialectFailure, 'status'> }
  return { status: answered.status, ...error }
}

/** The policy client has retried: SDKs that know the header must not. */
function send(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  const refused = status < 400 ? {} : { 'x-should-retry': 'false' }
  response
    .writeHead(status, { 'content-type': 'application/json', ...refused, ...headers })
    .end(JSON.stringify(body))
}

/** A stream that breaks ends with an event that says why. */
async function* eventTexts(
  batches: AsyncIterable<readonly DialectEvent[]>,
  failed: (error: unknown) => DialectEvent,
): AsyncGenerator<string> {
  try {
    for await (const events of batches) yield events.map(eventText).join('')
  } catch (error) {
    yield eventText(failed(error))
  }
}

/**
 * The events of an answer, as the chunks of the policy arrive.
 *
 * @throws OsmosisError with code `policy_stream_error` when the answer breaks off
 */
async function* answerEvents(
  answered: Response,
  request: DialectExchange['chat'],
  answer: DialectAnswer,
): AsyncGenerator<readonly DialectEvent[]> {
  const parts = new AnswerSegments()
  // The policy client has checked the limits.
  const streamed = new StreamedAnswer('text/event-stream', { request, maxLineBytes: Infinity })
  const events = (): DialectEvent[] => {
    const pieces: DialectEvent[] = []
    for (let chunk = streamed.read(); chunk !== undefined; chunk = streamed.read()) {
      for (const piece of parts.add(chunk)) pieces.push(...answer.piece(piece))
    }
    return pieces
  }
  yield answer.begin()
  for await (const bytes of answered.body as AsyncIterable<Uint8Array>) {
    streamed.add([bytes])
    const read = events()
    if (read.length > 0) yield read
  }
  streamed.end()
  yield [...events(), ...parts.rest().flatMap((piece) => answer.piece(piece))]
  yield answer.end(parts.end)
}

type CallHeaders = PolicyProxyCall['headers']

const subAgent: PolicyProxyUse = { purpose: 'subagent' }

/**
 * What a call is for, by the headers and the shape of its request, never by the text of prompts. Calls of an
 * agent, and those whose client says itself what they are for, have no use here.
 */
function defaultUse(call: PolicyProxyCall): PolicyProxyUse {
  const { headers } = call
  if ([purposeHeader, trainableHeader].some((name) => headers[name] !== undefined)) return {}
  if (headers['x-claude-code-agent-id'] !== undefined) return subAgent
  if (headers['x-claude-code-session-id'] !== undefined) {
    return isTitle(call) ? { purpose: 'title', trainable: false } : {}
  }
  const kind = codexRequestKind(headers)
  if (kind !== undefined && kind !== 'turn') return { purpose: kind, trainable: false }
  const isOfSubAgent =
    headers['x-openai-subagent'] !== undefined || headers['x-codex-parent-thread-id'] !== undefined
  return isOfSubAgent ? subAgent : {}
}

/** Claude Code asks for a title in a schema, and gives no tools. */
function isTitle({ body }: PolicyProxyCall): boolean {
  const { tools, output_config: output } = body
  const hasTools = Array.isArray(tools) && tools.length > 0
  return !hasTools && typeof output === 'object' && output !== null && 'format' in output
}

/** `turn`, `compaction` and others; undefined for other clients. */
function codexRequestKind(headers: CallHeaders): string | undefined {
  const metadata = headers['x-codex-turn-metadata']
  if (typeof metadata !== 'string') return undefined
  const { request_kind: kind } = (parseJson(metadata) ?? {}) as { request_kind?: unknown }
  if (typeof kind !== 'string') return undefined
  return kind.replaceAll(/[^\w.-]/g, '_').slice(0, 64) || undefined
}
