import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatToolCall,
  ChatUsage,
} from '@osmosis/core/policy'

import type { RealExchange } from './real-exchange.ts'

/** What the bytes of an answer say, read without the code that is tested. */
export interface SaidByServer {
  readonly id: string | undefined
  readonly model: string | undefined
  readonly content: string
  readonly toolCalls: readonly ChatToolCall[]
  readonly finishReason: string | null | undefined
  readonly usage: ChatUsage | undefined
  /** Of each token; undefined when the request did not want them, as all that follows. */
  readonly logprobs: readonly unknown[] | undefined
  readonly tokenIds: readonly number[] | undefined
  readonly promptTokenIds: readonly number[] | undefined
}

type WithIds<T> = T & { readonly prompt_token_ids?: number[] | null }

export function saidByServer({ contentType, body }: RealExchange): SaidByServer {
  return contentType.startsWith('text/event-stream') ? saidInStream(body) : saidInJson(body)
}

function saidInJson(text: string): SaidByServer {
  const {
    id,
    model,
    choices,
    usage,
    prompt_token_ids: prompt,
  } = JSON.parse(text) as WithIds<ChatCompletion>
  const {
    message,
    finish_reason: finishReason,
    logprobs: given,
    token_ids: ids,
  } = choices[0] as ChatCompletion['choices'][0] & { readonly token_ids?: number[] | null }
  const { content, tool_calls: toolCalls = [] } = message
  return {
    id,
    model,
    content: content ?? '',
    toolCalls,
    finishReason,
    usage: usage ?? undefined,
    logprobs: given?.content ?? undefined,
    tokenIds: ids ?? undefined,
    promptTokenIds: prompt ?? undefined,
  }
}

/** The server sends the calls of an answer one after the other, each with its id first. */
function saidInStream(text: string): SaidByServer {
  const chunks = text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice('data: '.length)) as WithIds<ChatCompletionChunk>)
  const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta ?? {}))
  const parts = deltas.flatMap(({ tool_calls: calls = [] }) => calls)
  const toolCalls = parts
    .filter(({ id }) => id !== undefined)
    .map(({ id, index, function: called }): ChatToolCall => {
      const pieces = parts.filter((part) => part.index === index)
      const written = pieces.map((part) => part.function?.arguments ?? '').join('')
      const name = called?.name ?? ''
      return { id: id ?? '', type: 'function', function: { name, arguments: written } }
    })
  const given = chunks.flatMap(({ choices }) => choices.map(({ logprobs: some }) => some?.content))
  const logprobs = given.flatMap((some) => some ?? [])
  const ids = chunks.flatMap(({ choices }) =>
    (choices as { readonly token_ids?: number[] | null }[]).flatMap(
      ({ token_ids: some }) => some ?? [],
    ),
  )
  return {
    id: chunks[0]?.id,
    model: chunks[0]?.model,
    content: deltas.map(({ content }) => content ?? '').join(''),
    toolCalls,
    finishReason: chunks.map(({ choices }) => choices[0]?.finish_reason).findLast(Boolean),
    usage: chunks.map(({ usage }) => usage).findLast(Boolean) ?? undefined,
    logprobs: logprobs.length === 0 ? undefined : logprobs,
    tokenIds: ids.length === 0 ? undefined : ids,
    promptTokenIds: chunks[0]?.prompt_token_ids ?? undefined,
  }
}
