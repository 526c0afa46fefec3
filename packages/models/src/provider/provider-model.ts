import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'

import type { LanguageModelV4, LanguageModelV4StreamPart } from '@ai-sdk/provider'
import { OsmosisError, errorMessage, isOsmosisError } from '@osmosis/core'
import {
  createTransport,
  untilAborted,
  webBody,
  bodyWithoutKeys,
  type Transport,
} from '@osmosis/core/http'
import type { ChatCompletion, ChatCompletionChunk, ChatDelta } from '@osmosis/core/policy'

import { refusal, type ChatModel, type ChatModelRequest } from '../chat-model.ts'
import { AnswerMemory } from './answer-memory.ts'
import { AnswerParts, type AnswerEnd } from './answer-parts.ts'
import { toCallOptions } from './call-options.ts'
import { UnsupportedRequest } from './prompt.ts'
import { type Provider, providerNames, providerOf } from './providers.ts'

/** The version of the AI SDK's model interface that is spoken here: that of `ai` 7. */
const specification = 'v4'

/** Settings that the packages of all providers take. */
interface ProviderSettings {
  readonly apiKey: string | undefined
  readonly baseURL: string | undefined
  readonly fetch: typeof globalThis.fetch
}

/**
 * Loads the package of a provider that is installed where `folder` is, and makes one of its models.
 *
 * @throws OsmosisError with code `invalid_config` when it is not installed, with the line that installs
 * it, or speaks another version of the AI SDK's interface
 */
async function loadProviderModel(
  provider: Provider,
  modelId: string,
  settings: ProviderSettings,
  folder: string,
): Promise<LanguageModelV4> {
  const exports = await importFrom(folder, provider.package)
  const [create] = Object.entries(exports).filter(([name]) => /^create[A-Z]/.test(name))
  if (typeof create?.[1] !== 'function') {
    throw invalid(`${provider.package} exports no function that creates a provider.`)
  }
  const provided = (
    create[1] as (settings: ProviderSettings) => {
      languageModel(modelId: string): { readonly specificationVersion: string }
    }
  )(settings)
  const model = provided.languageModel(modelId)
  if (model.specificationVersion === specification) return model as LanguageModelV4
  throw invalid(
    `The installed ${provider.package} is made for another version of the AI SDK: it has ${model.specificationVersion} of the model interface, and only ${specification} is supported, that of ai 7. Install the release for ai 7: ${installLine(`${provider.package}@latest`, folder)}`,
  )
}

async function importFrom(folder: string, name: string): Promise<Record<string, unknown>> {
  let file: string
  try {
    file = createRequire(path.join(path.resolve(folder), 'package.json')).resolve(name)
  } catch (cause) {
    throw invalid(
      `${name} is not installed in ${projectOf(folder)}. Install it: ${installLine(name, folder)}`,
      cause,
    )
  }
  try {
    return (await import(pathToFileURL(file).href)) as Record<string, unknown>
  } catch (cause) {
    throw invalid(`${name} cannot be loaded: ${errorMessage(cause)}`, cause)
  }
}

const lockFiles: readonly (readonly [file: string, line: string])[] = [
  ['pnpm-lock.yaml', 'pnpm add'],
  ['yarn.lock', 'yarn add'],
  ['bun.lock', 'bun add'],
  ['bun.lockb', 'bun add'],
  ['package-lock.json', 'npm install'],
]

/** The folder or the nearest one above it where packages can be installed. */
function projectOf(folder: string): string {
  for (let above = path.resolve(folder); ; above = path.dirname(above)) {
    if (existsSync(path.join(above, 'package.json'))) return above
    if (above === path.dirname(above)) return path.resolve(folder)
  }
}

/** What installs a package, with the package manager whose lock file is nearest. */
function installLine(name: string, folder: string): string {
  const here = path.resolve(folder)
  const found = lockFiles.find(([file]) => existsSync(path.join(here, file)))
  if (found !== undefined) return `${found[1]} ${name}`
  const parent = path.dirname(here)
  return parent === here ? `npm install ${name}` : installLine(name, parent)
}

function invalid(message: string, cause?: unknown): OsmosisError {
  return new OsmosisError('invalid_config', message, cause === undefined ? {} : { cause })
}

/** What the packages of the AI SDK throw when a provider does not answer. */
interface CallError {
  readonly statusCode?: unknown
  readonly responseHeaders?: Readonly<Record<string, string>>
  /** The body of the answer. */
  readonly data?: unknown
}

/** Those that say how long to wait. */
const waitingHeaders = ['retry-after', 'retry-after-ms']

/** An error of a call as the answer of an OpenAI-compatible endpoint. */
function toRefusal(name: string, error: unknown): Response {
  if (error instanceof UnsupportedRequest) {
    const message = `This cannot be put to ${name} through the AI SDK: ${error.message}.`
    return refusal(400, 'unsupported_request', message)
  }
  const message = `${name}: ${errorMessage(error)}`
  const { statusCode, responseHeaders = {}, data } = (error ?? {}) as CallError
  if (typeof statusCode === 'number' && statusCode >= 400) {
    const headers = Object.entries(responseHeaders).filter(([header]) =>
      waitingHeaders.includes(header.toLowerCase()),
    )
    const { code } = (data as { error?: { code?: unknown } } | undefined)?.error ?? {}
    const said = code === 'insufficient_quota' ? code : 'provider_refused'
    return refusal(statusCode, said, message, Object.fromEntries(headers))
  }
  if (isUnreachable(error)) return refusal(502, 'policy_unreachable', message)
  const kind = (error as { name?: unknown } | null)?.name
  if (kind === 'AI_LoadAPIKeyError') return refusal(401, 'missing_api_key', message)
  // The prompt or a setting is something this provider has no form for.
  if (kind === 'AI_UnsupportedFunctionalityError' || kind === 'AI_InvalidPromptError') {
    return refusal(400, 'unsupported_request', message)
  }
  return refusal(502, 'provider_failed', messageOf(name, error))
}

/** The text of an error in the middle of a stream, which may be any value. */
function messageOf(name: string, error: unknown): string {
  const said = error instanceof Error ? errorMessage(error) : (JSON.stringify(error) ?? 'an error')
  return `${name}: ${said}`
}

function isUnreachable(error: unknown): boolean {
  for (let link = error; link instanceof Error; link = link.cause) {
    if (isOsmosisError(link) && link.code === 'policy_unreachable') return true
  }
  return false
}

/** Options of {@link providerModel}. */
export interface ProviderModelOptions {
  /** The folder whose installed packages are looked through, and those above it. Default: the working folder. */
  readonly folder?: string
  /** Default: the variable of the provider's package, such as `OPENAI_API_KEY`. */
  readonly apiKey?: string | undefined
  /** Where the provider is asked. Default: its own address. */
  readonly baseUrl?: string | undefined
}

/**
 * A model of a provider by a name like `openai/gpt-5-mini`, through the AI SDK's package for it, which
 * has to be installed: `@ai-sdk/<provider>` for `ai` 7 (version `v4` of its model interface). It
 * takes and gives chat completions, streamed or not; what cannot be said to a provider is refused
 * with 400. Calls are made once and have no time limit. The code that made it closes it.
 *
 * @throws OsmosisError with code `invalid_config` for a name without a known provider, and when the
 * package is not installed (with the line that installs it) or is made for another version
 */
export async function providerModel(
  name: string,
  options: ProviderModelOptions = {},
): Promise<ChatModel & AsyncDisposable> {
  const found = providerOf(name)
  if (found === undefined) {
    throw new OsmosisError(
      'invalid_config',
      `${name} names no provider: write <provider>/<model>, with one of ${providerNames.join(', ')}.`,
    )
  }
  const transport = createTransport({
    name: `provider ${found.provider.name}`,
    codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
  })
  const { apiKey, baseUrl, folder = '.' } = options
  const settings = { apiKey, baseURL: baseUrl, fetch: providerFetch(transport) }
  const model = await loadProviderModel(found.provider, found.modelId, settings, folder)
  const memory = new AnswerMemory()
  const close = (): Promise<void> => transport.close()
  return {
    name,
    respond: (request) => respond(model, { name, memory, request }),
    close,
    [Symbol.asyncDispose]: close,
  }
}

interface Call {
  readonly name: string
  readonly memory: AnswerMemory
  readonly request: ChatModelRequest
}

async function respond(model: LanguageModelV4, call: Call): Promise<Response> {
  const { name, memory, request } = call
  const { body, signal } = request
  const answer = new AnswerParts()
  try {
    const options = { ...toCallOptions(body, memory), abortSignal: signal }
    const { stream } = await untilAborted(signal, async () => model.doStream(options))
    const deltas = readDeltas(stream, answer, call)
    // An answer that fails at once is an error status, and may be requested again.
    const first = await deltas.next()
    if (body['stream'] === true) {
      const events = Readable.from(toEvents(first, deltas, answer, call), { objectMode: false })
      return new Response(webBody(events), {
        headers: { 'content-type': 'text/event-stream' },
      })
    }
    for (let next = first; next.done !== true; next = await deltas.next());
    return Response.json(toCompletion(answer, call))
  } catch (error) {
    signal.throwIfAborted()
    return toRefusal(name, error)
  }
}

/** What an answer says, piece by piece, until it has ended well. */
async function* readDeltas(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  answer: AnswerParts,
  { memory, request: { signal } }: Call,
): AsyncGenerator<ChatDelta, undefined> {
  for await (const part of stream) {
    signal.throwIfAborted()
    const delta = answer.add(part)
    if (delta !== undefined) yield delta
  }
  signal.throwIfAborted()
  if (answer.end === undefined) throw new Error('the answer broke off')
  memory.keep(answer.remembered())
  return undefined
}

async function* toEvents(
  first: IteratorResult<ChatDelta, undefined>,
  deltas: AsyncGenerator<ChatDelta, undefined>,
  answer: AnswerParts,
  { name, request: { body, signal } }: Call,
): AsyncGenerator<string> {
  const head = { ...headOf(name), object: 'chat.completion.chunk' } as const
  const event = (chunk: Pick<ChatCompletionChunk, 'choices' | 'usage'>): string =>
    `data: ${JSON.stringify({ ...head, ...chunk })}\n\n`
  const choice = (delta: ChatDelta, finish_reason: string | null = null): string =>
    event({ choices: [{ index: 0, delta, finish_reason }] })
  try {
    yield choice({ role: 'assistant', content: '' })
    for (let next = first; next.done !== true; next = await deltas.next()) yield choice(next.value)
  } catch (error) {
    signal.throwIfAborted()
    // No `[DONE]` and no finish reason: what came so far is not an answer.
    const said = refusal(502, 'policy_stream_error', messageOf(name, error))
    yield `data: ${await said.text()}\n\n`
    return
  } finally {
    // A caller that reads no further wants no more of the provider.
    await deltas.return(undefined)
  }
  const { finishReason, usage } = answer.end as AnswerEnd
  yield choice({}, finishReason)
  const { include_usage: wanted } = (body['stream_options'] ?? {}) as { include_usage?: unknown }
  if (wanted === true && usage !== undefined) yield event({ choices: [], usage })
  yield 'data: [DONE]\n\n'
}

function toCompletion(answer: AnswerParts, { name }: Call): ChatCompletion {
  const { finishReason, usage } = answer.end as AnswerEnd
  return {
    ...headOf(name),
    object: 'chat.completion',
    choices: [{ index: 0, message: answer.message(), finish_reason: finishReason, logprobs: null }],
    ...(usage === undefined ? {} : { usage }),
  }
}

function headOf(model: string): Pick<ChatCompletion, 'id' | 'created' | 'model'> {
  return { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model }
}

/**
 * A `fetch` for the packages of providers. Node's own would give up on an answer that is silent for
 * 300 s; here the signal of the call is the only limit.
 */
function providerFetch(transport: Transport): typeof globalThis.fetch {
  return async (input, init = {}) => {
    const url = input instanceof Request ? input.url : input
    const { body, signal } = init
    if (typeof body !== 'string') throw new TypeError('A provider takes texts only.')
    // Compressed answers would have to be undone.
    const sent = { ...Object.fromEntries(new Headers(init.headers)), 'accept-encoding': 'identity' }
    const answer = await transport.send(url, {
      headers: sent,
      body,
      signal: signal ?? new AbortController().signal,
    })
    const headers = new Headers()
    for (const [name, value] of Object.entries(answer.headers as Record<string, unknown>)) {
      for (const text of [value].flat()) {
        if (typeof text === 'string') headers.append(name, text)
      }
    }
    const hasBody = answer.status !== 204 && answer.status !== 304
    return new Response(hasBody ? await bodyWithoutKeys(answer, sent) : null, {
      status: answer.status,
      headers,
    })
  }
}
