import { isDeepStrictEqual } from 'node:util'

import type { LanguageModelV4Message } from '@ai-sdk/provider'
import { argumentsObject, type ChatMessage } from '@osmosis/core/policy'

/** A part of an assistant message of the AI SDK. */
export type AssistantPart = Extract<
  LanguageModelV4Message,
  { role: 'assistant' }
>['content'][number]

const remembered = 10_000

/**
 * Answers with tool calls, as the provider gave them. Some providers refuse the next request unless it
 * repeats what chat completions have no field for, such as the signature of the thinking that led to
 * a call. Tool-call ids find them again; the oldest are forgotten.
 */
export class AnswerMemory {
  readonly #answers = new Map<string, readonly AssistantPart[]>()

  /** Keeps an answer, if it calls a tool. */
  keep(parts: readonly AssistantPart[]): void {
    const ids = parts.flatMap((part) => (part.type === 'tool-call' ? part.toolCallId : []))
    const key = keyOf(ids)
    if (key === undefined) return
    this.#answers.set(key, parts)
    if (this.#answers.size <= remembered) return
    const [oldest] = this.#answers.keys()
    if (oldest !== undefined) this.#answers.delete(oldest)
  }

  /**
   * The parts of an answer that comes back unchanged, apart from the spaces in its arguments; undefined for one that is
   * not known.
   */
  recall(message: ChatMessage): AssistantPart[] | undefined {
    const key = keyOf((message.tool_calls ?? []).map(({ id }) => id))
    const parts = key === undefined ? undefined : this.#answers.get(key)
    if (parts === undefined) return undefined
    const text = parts.map((part) => (part.type === 'text' ? part.text : '')).join('')
    const calls = parts.filter((part) => part.type === 'tool-call')
    const isSame =
      (message.content ?? '') === text &&
      (message.tool_calls ?? []).every(
        ({ function: called }, index) =>
          called.name === calls[index]?.toolName &&
          isDeepStrictEqual(toolInput(called.arguments), calls[index]?.input),
      )
    return isSame ? [...parts] : undefined
  }
}

/** Providers take an object; whatever else a model wrote cannot be said to them. */
export function toolInput(text: string): unknown {
  return argumentsObject(text) ?? {}
}

function keyOf(ids: readonly string[]): string | undefined {
  return ids.length === 0 ? undefined : JSON.stringify(ids)
}
