import type { MetadataExtractor } from '@ai-sdk/openai-compatible'
import { OsmosisError } from '@osmosis/core'
import { isJsonObject } from '@osmosis/core/http'
import {
  policyModelName,
  type ChatCompletion,
  type ChatCompletionRequest,
  type ChatToolCall,
} from '@osmosis/core/policy'

import type { CallOptions, GenerateResult } from './language-model-types.ts'

/** Name of the provider: the key of its `providerOptions` and `providerMetadata`. */
export const providerName = 'osmosis'

/** A call of the SDK as a request to the policy. */
export interface WireRequest {
  readonly body: ChatCompletionRequest
  /** What of the call has no place in the request. */
  readonly warnings: GenerateResult['warnings']
}

/** A call of the SDK in chat completions form, as the SDK itself converts it. */
export async function wireRequest(options: CallOptions): Promise<WireRequest> {
  const { body, warnings } = await (await converter()).prepareRequest(options)
  return { body: { ...body, messages: body.messages.map(recognisableArguments) }, warnings }
}

/**
 * An answer of the policy as the SDK itself converts it.
 *
 * @throws OsmosisError with code `policy_stream_error` when the SDK cannot read it
 */
export async function sdkAnswer({
  id,
  created,
  model,
  ...completion
}: ChatCompletion): Promise<GenerateResult> {
  // The SDK makes up what is missing, which is not the same as being empty.
  const known = { ...(id && { id }), ...(created && { created }), ...(model && { model }) }
  try {
    return await (await converter()).convertResponse({ body: { ...completion, ...known } })
  } catch (cause) {
    const said = cause instanceof Error ? cause.message : String(cause)
    throw new OsmosisError(
      'policy_stream_error',
      `The AI SDK could not read the answer of the policy: ${said}`,
      { cause },
    )
  }
}

/** The SDK has no place for logprobs; they go where providers put what only they have. */
const logprobsExtractor: MetadataExtractor = {
  async extractMetadata({ parsedBody }) {
    const logprobs = (parsedBody as ChatCompletion).choices[0]?.logprobs?.content
    return logprobs ? { [providerName]: { logprobs: logprobs as never } } : undefined
  },
  createStreamExtractor: () => ({ processChunk() {}, buildMetadata: () => undefined }),
}

interface Converter {
  prepareRequest(options: CallOptions): Promise<WireRequest>
  convertResponse(response: { body: unknown }): Promise<GenerateResult>
}

let loaded: Promise<Converter> | undefined

/**
 * The SDK's own chat completions model, which only converts: asking is the rollout's business. One
 * for all calls, because it builds its schemas again each time it is made. It is loaded by the first call, because
 * many programs import this package and call no policy.
 */
async function converter(): Promise<Converter> {
  loaded ??= load().catch((error: unknown) => {
    // The next call may find what was missing, such as a free file descriptor.
    loaded = undefined
    throw error
  })
  return loaded
}

async function load(): Promise<Converter> {
  const { OpenAICompatibleChatLanguageModel } = await import('@ai-sdk/openai-compatible')
  return new OpenAICompatibleChatLanguageModel(policyModelName, {
    provider: providerName,
    url: () => '',
    // Without, the schema of a structured output would not reach the model in any form.
    supportsStructuredOutputs: true,
    metadataExtractor: logprobsExtractor,
    // The provider types of the user's `ai` and of this dependency are two copies that may differ in
    // details; at run time they are one specification.
  }) as unknown as Converter
}

type WireMessage = ChatCompletionRequest['messages'][number]

/**
 * Tool arguments in a form in which the rollout recognises what the policy wrote. Arguments that
 * are not a JSON object come back from the SDK as `{}`, as the JSON text of a string that holds them,
 * or re-serialised, depending on what is wrong with them and on the version of the SDK.
 */
function recognisableArguments(message: WireMessage): WireMessage {
  if (message.role === 'tool') return withoutCall(message)
  if (!message.tool_calls) return message
  return {
    ...message,
    tool_calls: message.tool_calls.map((call) => ({
      ...withoutResult(call),
      function: { ...call.function, arguments: asWritten(call.function.arguments) },
    })),
  }
}

/**
 * Mastra copies the fields that `toModelMessages` gives a call to its result, and those of a result to its call. Strict servers
 * refuse them there.
 */
function withoutCall(result: WireMessage): WireMessage {
  const { function: _function, type: _type, index: _index, ...others } = result
  return others
}

/** The same for a call, which has no field of messages. */
function withoutResult(call: ChatToolCall): ChatToolCall {
  const own = Object.entries(call).filter(([key]) => !messageFields.has(key))
  return Object.fromEntries(own) as unknown as ChatToolCall
}

const messageFields: ReadonlySet<string> = new Set([
  'name',
  'reasoning',
  'reasoning_content',
  'refusal',
  'tool_calls',
])

function asWritten(json: string): string {
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch {
    // From a prompt of the user's own; the rollout knows what to do with it.
    return json
  }
  if (typeof value === 'string') return value
  return isJsonObject(value) ? json : '{}'
}
