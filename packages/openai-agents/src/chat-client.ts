import type { OpenAIChatCompletionsModel } from '@openai/agents'
import type { PolicyCallOptions, PolicyClient, PolicyStream } from '@osmosis/core'
import type {
  ChatCompletionChunk,
  ChatCompletionRequest,
  ChatMessage,
  ChatCompletion,
  ChatContentPart,
} from '@osmosis/core/policy'

type Choice = ChatCompletionChunk['choices'][number]

/**
 * The chunks of an answer in the one form that the SDK reads right. Text and thinking pass as they
 * come; tool calls and the finish reason come in one chunk behind the rest, put together the way
 * the rollout's record has them. (The SDK takes streams to be OpenAI's: it mixes up tool calls
 * without an index, appends names that are repeated and knows thinking as `reasoning` only.)
 */
class SdkChunks {
  #finishReason: string | null | undefined

  /** Why the policy stopped; undefined until it did, and where it did not say. */
  get finishReason(): string | undefined {
    return this.#finishReason ?? undefined
  }

  async *read(answer: PolicyStream): AsyncGenerator<ChatCompletionChunk> {
    for await (const chunk of answer) {
      yield { ...chunk, choices: firstChoice(chunk).map(passing) }
    }
    const completion = await answer.completion
    this.#finishReason = completion.choices[0]?.finish_reason
    yield closing(completion)
  }
}

function closing({ id, created, model, choices }: ChatCompletion): ChatCompletionChunk {
  const [choice] = choices
  const { content, refusal, reasoning, reasoning_content, tool_calls } = choice?.message ?? {}
  const empty = !content && !refusal && !reasoning && !reasoning_content && !tool_calls
  const said = choice?.finish_reason ?? 'stop'
  return {
    id,
    object: 'chat.completion.chunk',
    created,
    model,
    choices: [
      {
        index: 0,
        delta: tool_calls
          ? { tool_calls: tool_calls.map((call, index) => ({ index, ...call })) }
          : {},
        // An answer that was cut before its first word is an answer; the SDK makes it an error.
        finish_reason: empty && said === 'length' ? 'stop' : said,
      },
    ],
  }
}

function firstChoice({ choices }: ChatCompletionChunk): Choice[] {
  return (choices ?? []).filter(({ index }) => (index ?? 0) === 0)
}

function passing(choice: Choice): Choice {
  const { tool_calls: _later, ...delta } = choice.delta ?? {}
  return {
    ...choice,
    index: 0,
    finish_reason: null,
    delta: { ...delta, reasoning: delta.reasoning ?? delta.reasoning_content ?? null },
  }
}

/** What the SDK's chat completions model takes as its client: the `openai` package's, as a type. */
type SdkClient = ConstructorParameters<typeof OpenAIChatCompletionsModel>[0]

interface CreateOptions {
  readonly headers?: Readonly<Record<string, unknown>>
  readonly signal?: AbortSignal
  /** 0 where the call is a repetition by the SDK, on a retry policy of the user's. */
  readonly maxRetries?: number
}

/** What a model call is for. */
export type CallUseOptions = Pick<PolicyCallOptions, 'purpose' | 'trainable' | 'agent'>

/** The client of one model call: what the SDK calls, over the policy client of the sample. */
export class PolicyChatClient {
  readonly #policy: PolicyClient
  readonly #use: CallUseOptions
  #chunks: SdkChunks | undefined

  constructor(policy: PolicyClient, { purpose, trainable, agent }: CallUseOptions) {
    this.#policy = policy
    this.#use = { purpose, trainable, agent }
  }

  /** Why the policy stopped; undefined until it did. */
  get finishReason(): string | undefined {
    return this.#chunks?.finishReason
  }

  /** Whether the SDK has made a request. */
  get wasCalled(): boolean {
    return this.#chunks !== undefined
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
      ...withoutStrict(rest['tools']),
      ...(extra_body as object | undefined),
      ...(extraBody as object | undefined),
      messages: toWireMessages(body['messages'] as readonly ChatMessage[]),
    }
    const chunks = new SdkChunks()
    this.#chunks = chunks
    return chunks.read(
      this.#policy.stream(request, {
        ...this.#use,
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

/**
 * The SDK makes every tool strict that does not say otherwise. A server that masks tokens for it (vLLM) would give the logprobs of
 * another distribution than the policy's, and the policy would not learn to write arguments.
 */
function withoutStrict(tools: unknown): { readonly tools?: readonly unknown[] } {
  if (!Array.isArray(tools)) return {}
  return {
    tools: tools.map((tool: { readonly function?: { readonly strict?: unknown } }) => {
      if (tool.function?.strict !== true) return tool
      const { strict: _, ...declared } = tool.function
      return { ...tool, function: declared }
    }),
  }
}

function textHeaders(headers: Readonly<Record<string, unknown>>): Record<string, string> {
  const set = Object.entries(headers).filter(([, value]) => value !== undefined && value !== null)
  return Object.fromEntries(set.map(([name, value]) => [name, String(value)]))
}

/**
 * Messages of the SDK in the form that the policy wrote them in, so that a turn is recognised when
 * it comes back: one message per turn, with its refusal in the field of that name.
 */
function toWireMessages(messages: readonly ChatMessage[]): ChatMessage[] {
  const wire: ChatMessage[] = []
  for (const message of messages) {
    const next = message.role === 'assistant' ? withRefusalField(message) : message
    const previous = wire.at(-1)
    if (previous && isTextOfTurn(previous) && isToolCallsOfTurn(next)) {
      wire[wire.length - 1] = { ...next, ...previous, ...toolCallsOf(next) }
    } else if (previous && isThinkingOfTurn(previous) && next.role === 'assistant') {
      wire[wire.length - 1] = { ...previous, ...next }
    } else {
      wire.push(next)
    }
  }
  return wire
}

// Up to 0.17.0 the SDK replays one turn as up to three messages: its thinking, its text, its tool
// calls. Two turns in a row without anything between them do not occur in a run.

function isThinkingOfTurn({ role, content, tool_calls, reasoning }: ChatMessage): boolean {
  return role === 'assistant' && content === null && !tool_calls?.length && Boolean(reasoning)
}

function isTextOfTurn({ role, content, tool_calls }: ChatMessage): boolean {
  return role === 'assistant' && content !== null && !tool_calls?.length
}

function isToolCallsOfTurn({ role, content, tool_calls }: ChatMessage): boolean {
  return role === 'assistant' && content === null && Boolean(tool_calls?.length)
}

function toolCallsOf({ tool_calls }: ChatMessage): Pick<ChatMessage, 'tool_calls'> {
  return tool_calls ? { tool_calls } : {}
}

function withRefusalField(message: ChatMessage): ChatMessage {
  const { content } = message
  if (!Array.isArray(content) || !content.some(isRefusal)) return message
  const refusal = content
    .filter(isRefusal)
    .map((part) => (typeof part['refusal'] === 'string' ? part['refusal'] : ''))
    .join('')
  const text = content.filter((part) => !isRefusal(part))
  return { ...message, content: text.length > 0 ? text : null, refusal }
}

function isRefusal({ type }: ChatContentPart): boolean {
  return type === 'refusal'
}
