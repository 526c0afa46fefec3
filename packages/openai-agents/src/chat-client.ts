import type { OpenAIChatCompletionsModel } from '@openai/agents'
import type { PolicyClient } from '@osmosis/core'
import type { ChatCompletionChunk, ChatCompletionRequest, ChatMessage } from '@osmosis/core/policy'

import { SdkChunks } from './sdk-chunks.ts'
import { toWireMessages } from './wire-messages.ts'

/** What the SDK's chat completions model takes as its client: the `openai` package's, as a type. */
type SdkClient = ConstructorParameters<typeof OpenAIChatCompletionsModel>[0]

interface CreateOptions {
  readonly headers?: Readonly<Record<string, unknown>>
  readonly signal?: AbortSignal
  /** 0 where the call is a repetition by the SDK, on a retry policy of the user's. */
  readonly maxRetries?: number
}

/** The client of one model call: what the SDK calls, over the policy client of the sample. */
export class PolicyChatClient {
  readonly #policy: PolicyClient
  #chunks: SdkChunks | undefined

  constructor(policy: PolicyClient) {
    this.#policy = policy
  }

  /** Why the policy stopped; undefined until it did. */
  get finishReason(): string | undefined {
    return this.#chunks?.finishReason
  }

  /** The part of an `openai` client that the SDK's model uses. */
  forSdk(): SdkClient {
    const client = {
      baseURL: this.#policy.baseUrl,
      chat: {
        completions: {
          create: async (body: Readonly<Record<string, unknown>>, options: CreateOptions = {}) =>
            this.#create(body, options),
        },
      },
    }
    return client as unknown as SdkClient
  }

  #create(
    body: Readonly<Record<string, unknown>>,
    { headers, signal, maxRetries }: CreateOptions,
  ): AsyncIterable<ChatCompletionChunk> {
    // Settings of the `openai` package for a request, which providerData carries into its body.
    const { extra_headers, extraHeaders, extra_body, extraBody, ...rest } = body
    const request: ChatCompletionRequest = {
      ...rest,
      ...(extra_body as object | undefined),
      ...(extraBody as object | undefined),
      messages: toWireMessages(body['messages'] as readonly ChatMessage[]),
    }
    const chunks = new SdkChunks()
    this.#chunks = chunks
    return chunks.read(
      this.#policy.stream(request, {
        signal,
        retries: maxRetries,
        headers: textHeaders({
          ...headers,
          ...(extra_headers as object),
          ...(extraHeaders as object),
        }),
      }),
    )
  }
}

function textHeaders(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const set = Object.entries(headers).filter(([, value]) => value !== undefined && value !== null)
  return Object.fromEntries(set.map(([name, value]) => [name, String(value)]))
}
