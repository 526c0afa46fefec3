import { randomUUID } from 'node:crypto'

import type { ModelMessage } from 'ai'

import type { AnswerPart, CallPrompt } from './language-model-types.ts'

type AssistantParts = Exclude<Extract<ModelMessage, { role: 'assistant' }>['content'], string>

/** One model call: what was asked, what was answered, and what the tools made of it. */
export class RecordedCall {
  /** Goes into the metadata of the answer, and from there into the step that the SDK makes of it. */
  readonly turnId = randomUUID()
  /** Its place among the calls of the sample, counted from 1. */
  readonly number: number
  readonly #prompt: CallPrompt
  #answer: ModelMessage[] = []
  #toolResults: ModelMessage[] = []

  constructor(prompt: CallPrompt, number: number) {
    this.#prompt = prompt
    this.number = number
  }

  get prompt(): readonly ModelMessage[] {
    return this.#prompt
  }

  /** The conversation as far as this call knows it. */
  get messages(): ModelMessage[] {
    return [...this.#prompt, ...this.#answer, ...this.#toolResults]
  }

  get isAnswered(): boolean {
    return this.#answer.length > 0
  }

  answered(content: readonly AnswerPart[]): void {
    this.#answer = [{ role: 'assistant', content: content.flatMap(assistantParts) }]
  }

  /** The policy sees these with the next call; there is none when they end the loop. */
  stepped(messages: readonly ModelMessage[]): void {
    this.#toolResults = messages.filter(({ role }) => role === 'tool')
  }
}

/** Files, sources and results of provider-executed tools are in no chat completion. */
function assistantParts(part: AnswerPart): AssistantParts {
  if (part.type === 'text') return part.text === '' ? [] : [{ type: 'text', text: part.text }]
  if (part.type === 'reasoning') return [{ type: 'reasoning', text: part.text }]
  if (part.type !== 'tool-call') return []
  const { type, toolCallId, toolName, input } = part
  return [{ type, toolCallId, toolName, input: parsed(input) }]
}

/** As the SDK has it in its history: an empty object for what is not JSON. */
function parsed(input: string): unknown {
  try {
    return JSON.parse(input)
  } catch {
    return {}
  }
}
