import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'

import type { LanguageModelV4, LanguageModelV4StreamPart } from '@ai-sdk/provider'
import { OsmosisError } from '@osmosis/core'
import { createTransport, untilAborted, webBody } from '@osmosis/core/http'
import type { ChatCompletion, ChatCompletionChunk, ChatDelta } from '@osmosis/core/policy'

import { refusal, type ChatModel, type ChatModelRequest } from '../chat-model.ts'
import { AnswerMemory } from './answer-memory.ts'
import { AnswerParts, type AnswerEnd } from './answer-parts.ts'
import { toCallOptions } from './call-options.ts'
import { loadProviderModel } from './load-provider.ts'
import { messageOf, toRefusal } from './provider-errors.ts'
import { providerFetch } from './provider-fetch.ts'
import { providerNames, providerOf } from './providers.ts'

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
 * with 400. Calls are made once and have no time limit. Whoever made it closes it.
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
    // An answer that fails at once is an error status, and may be asked for again.
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
  yield choice({ role: 'assistant', content: '' })
  try {
    for (let next = first; next.done !== true; next = await deltas.next()) yield choice(next.value)
  } catch (error) {
    signal.throwIfAborted()
    // No `[DONE]` and no finish reason: what came so far is not an answer.
    const said = refusal(502, 'policy_stream_error', messageOf(name, error))
    yield `data: ${await said.text()}\n\n`
    return
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
