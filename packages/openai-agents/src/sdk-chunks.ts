import type { PolicyStream } from '@osmosis/core'
import type { ChatCompletion, ChatCompletionChunk } from '@osmosis/core/policy'

type Choice = ChatCompletionChunk['choices'][number]

/**
 * The chunks of an answer in the one form that the SDK reads right. Text and thinking pass as they
 * come; tool calls and the finish reason come in one chunk behind the rest, put together the way
 * the rollout's record has them. (The SDK takes streams to be OpenAI's: it mixes up tool calls
 * without an index, appends names that are repeated and knows thinking as `reasoning` only.)
 */
export class SdkChunks {
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
