import type { AssistantMessage, ChatCompletion, ChatCompletionRequest } from '@osmosis/core/policy'

let count = 0

/**
 * An answer with everything that training needs: a token for each character of the request's messages and of the
 * answer, and logprobs of -0.5.
 */
export function tokenAnswer(
  { messages }: Pick<ChatCompletionRequest, 'messages'>,
  message: Omit<AssistantMessage, 'role'>,
  id = `chatcmpl-${(count += 1)}`,
): ChatCompletion {
  const ids = tokensOf(JSON.stringify(message))
  return {
    id,
    object: 'chat.completion',
    created: 1_750_000_000,
    model: 'policy',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', ...message, content: message['content'] as string | null },
        finish_reason: message['tool_calls'] ? 'tool_calls' : 'stop',
        logprobs: { content: ids.map(() => ({ token: '', logprob: -0.5 })) },
        token_ids: ids,
      },
    ],
    prompt_token_ids: tokensOf(JSON.stringify(messages)),
  }
}

function tokensOf(text: string): number[] {
  return Array.from(text, (character) => character.codePointAt(0) ?? 0)
}
