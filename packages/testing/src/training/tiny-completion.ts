import type { ChatCompletion, ChatCompletionRequest } from '@osmosis/core/policy'

import { callId, tinyTokens } from './tiny-tokens.ts'

/** What a tiny policy has drawn. */
export interface SampledAnswer {
  readonly id: string
  readonly model: string
  readonly promptIds: number[]
  readonly ids: number[]
  readonly logprobs: readonly number[]
}

/**
 * A drawn answer as a chat completion, with what vLLM adds for trainers.
 *
 * @throws TypeError when it calls a tool and the request has none
 */
export function toCompletion(body: ChatCompletionRequest, answer: SampledAnswer): ChatCompletion {
  const { id, model, promptIds, ids, logprobs } = answer
  const calls = ids.includes(callId)
  const letters = ids.filter((said) => said !== callId).map((said) => tinyTokens[said])
  const call = () => ({
    id: `call_${id}`,
    type: 'function' as const,
    function: { name: firstTool(body), arguments: '{}' },
  })
  return {
    id: `chatcmpl-${id}`,
    object: 'chat.completion',
    created: 0,
    model,
    prompt_token_ids: promptIds,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: letters.length === 0 ? null : letters.join(''),
          ...(calls ? { tool_calls: [call()] } : {}),
        },
        finish_reason: calls ? 'tool_calls' : 'stop',
        logprobs: {
          content: ids.map((said, at) => ({
            token: tinyTokens[said],
            logprob: logprobs[at],
            bytes: null,
            top_logprobs: [],
          })),
        },
        token_ids: ids,
      },
    ],
    usage: {
      prompt_tokens: promptIds.length,
      completion_tokens: ids.length,
      total_tokens: promptIds.length + ids.length,
    },
  }
}

function firstTool({ tools }: ChatCompletionRequest): string {
  const [tool] = Array.isArray(tools) ? (tools as unknown[]) : []
  const name = (tool as { function?: { name?: unknown } } | undefined)?.function?.name
  if (typeof name === 'string') return name
  throw new TypeError('A tiny policy calls the first tool of a request, and this one has no tool.')
}
