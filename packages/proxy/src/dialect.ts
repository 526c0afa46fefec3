import { isJsonObject } from '@osmosis/core/http'
import type { ChatCompletionRequest, ChatMessage } from '@osmosis/core/policy'

import type { PolicyAnswerEnd, SegmentStep } from './answer-segments.ts'

export type WireObject = Readonly<Record<string, unknown>>

/** An event of a stream: its data, whose `type` is also the name of the event. */
export type DialectEvent = WireObject & { readonly type: string }

/** Another wire in front of the policy. One object serves all requests of a proxy. */
export interface Dialect {
  /**
   * Converts a request.
   *
   * @throws RefusedField for what chat completions cannot represent
   */
  open(body: WireObject): DialectExchange
  /** The body of an error. */
  error(failure: DialectFailure): WireObject
  /** What a stream has while the policy is silent, and clients ignore. */
  readonly ping: string
}

/** A line of an event stream that is no event. */
export const pingComment = ': ping\n\n'

export function eventText(event: DialectEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}

export interface DialectFailure {
  readonly status: number
  readonly message: string
  /** The policy's or our own code of the error. */
  readonly code?: string | undefined
  /** The policy's type of the error. */
  readonly type?: string | undefined
  /** The field of the request that is wrong. */
  readonly field?: string | undefined
}

/** One request in a dialect, and its answer. */
export interface DialectExchange {
  readonly chat: ChatCompletionRequest
  /** Names of fields and tools that the request to the policy does not have. */
  readonly leftOut: ReadonlySet<string>
  readonly answer: DialectAnswer
}

/** Writes an answer, as events and whole. */
export interface DialectAnswer {
  begin(): readonly DialectEvent[]
  piece(piece: SegmentStep): readonly DialectEvent[]
  end(end: PolicyAnswerEnd): readonly DialectEvent[]
  /** The last event of an answer that broke off. */
  failed(failure: DialectFailure): DialectEvent
  /** The answer, complete after `end`. */
  readonly whole: WireObject
}

/** A field of a request that has a wrong value, or one without which the rest would mean something else. */
export class RefusedField extends Error {
  override readonly name = 'RefusedField'
  readonly field: string
  readonly code: string
  readonly status: number

  constructor(field: string, message: string, code = 'invalid_request', status = 400) {
    super(`${field}: ${message}`)
    this.field = field
    this.code = code
    this.status = status
  }
}

export function refuse(place: string, expected: string, value: unknown): never {
  throw new RefusedField(place, `expected ${expected}, got ${quoted(value)}.`)
}

function quoted(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > 100 ? `${text.slice(0, 100)}…` : text
}

export function objectAt(value: unknown, place: string): WireObject {
  return isJsonObject(value) ? value : refuse(place, 'an object', value)
}

export function textAt(value: unknown, place: string): string {
  return typeof value === 'string' ? value : refuse(place, 'a text', value)
}

export function listAt(value: unknown, place: string): readonly unknown[] {
  return Array.isArray(value) ? value : refuse(place, 'a list', value)
}

/** The messages of a request: a policy cannot answer an empty conversation. */
export function conversationAt(value: unknown, place: string): readonly unknown[] {
  const list = listAt(value, place)
  return list.length > 0 ? list : refuse(place, 'at least one message', list)
}

/** Whether a message has neither text, parts nor calls. The result of a call may have no text. */
export function isEmptyMessage({ role, content, tool_calls: calls = [] }: ChatMessage): boolean {
  return role !== 'tool' && calls.length === 0 && !(content && content.length > 0)
}

export function isGiven<T>(value: T): value is NonNullable<T> {
  return value !== undefined && value !== null
}

/** Adds the name of an item, or of a block of a content, that chat completions cannot represent. */
export function leaveOut(kind: 'item' | 'block' | 'tool', type: unknown, to: Set<string>): void {
  to.add(`${kind} ${quoted(type)}`)
}

/** Adds the names of the fields that are given and not among the known ones. */
export function addUnknown(body: WireObject, known: ReadonlySet<string>, to: Set<string>): void {
  for (const [name, value] of Object.entries(body)) {
    if (isGiven(value) && !known.has(name)) to.add(name)
  }
}

/** Refuses a choice of a tool that the policy does not get: an answer without it is not what was asked for. */
export function assertChoice(choice: unknown, functions: readonly WireObject[]): void {
  const nameOf = (tool: unknown): unknown => (tool as { function?: WireObject }).function?.['name']
  const isPossible =
    typeof choice === 'object' && choice !== null
      ? functions.some((tool) => nameOf(tool) === nameOf(choice))
      : choice !== 'required' || functions.length > 0
  if (!isPossible) refuse('tool_choice', 'a tool that the policy gets', nameOf(choice) ?? choice)
}

/** The settings of a chat completions request that are given. */
export function given(settings: WireObject): WireObject {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => isGiven(value)))
}
