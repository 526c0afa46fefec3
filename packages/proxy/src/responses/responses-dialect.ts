import type { ChatMessage } from '@osmosis/core/policy'

import {
  type Dialect,
  type DialectExchange,
  type DialectFailure,
  pingComment,
  type WireObject,
  RefusedField,
  textAt,
} from '../dialect.ts'
import { ResponseAnswer } from './response-answer.ts'
import { FunctionNames, type ItemReading, messagesOf, settingsOf } from './responses-request.ts'

/** A response that a later request may continue. */
interface StoredResponse {
  readonly messages: readonly ChatMessage[]
  readonly answer: ResponseAnswer
}

/** OpenAI's Responses API, with the responses of a rollout so far. */
export class ResponsesDialect implements Dialect {
  readonly #functions = new FunctionNames()
  readonly #stored = new Map<string, StoredResponse>()
  readonly #items = new Map<string, WireObject>()
  #latest: readonly ChatMessage[] = []

  open(body: WireObject): DialectExchange {
    const leftOut = new Set<string>()
    const functions = this.#functions
    const settings = settingsOf(body, functions, leftOut)
    const itemOf = (id: string): WireObject | undefined => this.#items.get(id)
    const reading: ItemReading = { functions, itemOf, leftOut }
    const earlier = this.#earlier(body['previous_response_id'], reading)
    const messages = this.#shared(messagesOf(body, earlier, reading))
    const answer = new ResponseAnswer(body, functions)
    if (body['store'] !== false) {
      const ownMessages = body['instructions'] ? messages.slice(1) : messages
      answer.onCompleted = () => this.#store({ messages: ownMessages, answer })
    }
    return { chat: { ...settings, messages }, leftOut, answer }
  }

  readonly error = openAiError
  // OpenAI's API has no such event.
  readonly ping = pingComment

  #earlier(id: unknown, reading: ItemReading): readonly ChatMessage[] {
    if (id === undefined || id === null) return []
    const stored = this.#stored.get(textAt(id, 'previous_response_id'))
    if (stored === undefined) {
      throw new RefusedField(
        'previous_response_id',
        `expected the id of a stored response of this rollout, got ${JSON.stringify(id)}.`,
        'previous_response_not_found',
      )
    }
    return messagesOf({ input: stored.answer.output }, stored.messages, reading)
  }

  #store(response: StoredResponse): void {
    this.#stored.set(response.answer.id, response)
    for (const item of response.answer.output) this.#items.set(item['id'] as string, item)
  }

  /** Clients send the whole conversation each time: what is equal is stored once. */
  #shared(messages: ChatMessage[]): ChatMessage[] {
    const latest = this.#latest
    let at = 0
    while (at < messages.length && JSON.stringify(latest[at]) === JSON.stringify(messages[at]))
      at += 1
    this.#latest = [...latest.slice(0, at), ...messages.slice(at)]
    return [...this.#latest]
  }
}

/** The form of OpenAI's errors. */
export function openAiError({ status, message, code, type, field }: DialectFailure): WireObject {
  const known = type ?? (status < 500 ? 'invalid_request_error' : 'server_error')
  return { error: { message, type: known, param: field ?? null, code: code ?? null } }
}
