import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'

import { type RolloutSample, type SampleSource, toRolloutSample } from '@osmosis/core'
import type { ModelMessage } from 'ai'

import { toolInput } from './chat-messages.ts'
import type { AnswerPart, CallPrompt } from './language-model-types.ts'

type AssistantParts = Exclude<Extract<ModelMessage, { role: 'assistant' }>['content'], string>

/** One model call: its request, its answer, and the results of its tools. */
class RecordedCall {
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
  return [{ type, toolCallId, toolName, input: toolInput(input) }]
}

/**
 * What is known of a sample besides its wire transcript: its latest conversation in the SDK's own
 * messages, the last tool results included.
 */
export class SampleRecord implements SampleSource {
  readonly requiresModelCall = true
  readonly #streams = new Set<Promise<void>>()
  #latest: RecordedCall | undefined
  #answered: RecordedCall | undefined
  #count = 0

  /** Notes a call that is about to be made. */
  begin(prompt: CallPrompt): RecordedCall {
    this.#latest = new RecordedCall(prompt, (this.#count += 1))
    return this.#latest
  }

  /** The sample is not complete before what is returned has been called. */
  waitForStream(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#streams.add(promise)
    return () => {
      this.#streams.delete(promise)
      resolve()
    }
  }

  succeed(call: RecordedCall, content: readonly AnswerPart[]): void {
    call.answered(content)
    if (call.number > (this.#answered?.number ?? 0)) this.#answered = call
  }

  /** The call that a step of the SDK came from, when it is the latest. */
  callOfTurn(turnId: unknown): RecordedCall | undefined {
    return [this.#latest, this.#answered].find((call) => call?.turnId === turnId)
  }

  async getSample(id: string): Promise<RolloutSample> {
    await Promise.all(this.#streams)
    return toRolloutSample({ id, messages: plainMessages(this.#conversation?.messages ?? []) })
  }

  get #conversation(): RecordedCall | undefined {
    const latest = this.#latest
    const answered = this.#answered
    if (latest === undefined || latest.isAnswered || answered === undefined) return latest
    // Asked once more for what was answered before, and refused: the answer stays the conversation.
    const known = answered.messages.slice(0, latest.prompt.length)
    return isDeepStrictEqual(known, latest.prompt) ? answered : latest
  }
}

/**
 * Messages as they can be stored: bytes in base64, URLs as text, and no properties without a value,
 * of which the SDK leaves many.
 */
function plainMessages(messages: readonly ModelMessage[]): unknown[] {
  return messages.map(plain)
}

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (value instanceof ArrayBuffer) return Buffer.from(value).toString('base64')
  if (Array.isArray(value)) return value.map(plain)
  if (value instanceof URL) return value.href
  if (value instanceof Date) return value.toISOString()
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, field]) => field !== undefined)
      .map(([key, field]) => [key, plain(field)]),
  )
}
