import type { ChatCompletionRequest } from '../policy/chat-completion.ts'
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
}

export interface DialectFailure {
  readonly status: number
  readonly message: string
  /** The policy's or our own code of the error. */
  readonly code?: string | undefined
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

/** A field of a request that has a wrong value, or one that chat completions cannot represent. */
export class RefusedField extends Error {
  override readonly name = 'RefusedField'
  readonly field: string
  readonly code: string

  constructor(field: string, message: string, code = 'invalid_request') {
    super(`${field}: ${message}`)
    this.field = field
    this.code = code
  }
}

export function refuse(place: string, expected: string, value: unknown): never {
  const text = JSON.stringify(value) ?? 'nothing'
  const got = text.length > 100 ? `${text.slice(0, 100)}…` : text
  throw new RefusedField(place, `expected ${expected}, got ${got}.`)
}

export function objectAt(value: unknown, place: string): WireObject {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as WireObject
  }
  return refuse(place, 'an object', value)
}

export function textAt(value: unknown, place: string): string {
  return typeof value === 'string' ? value : refuse(place, 'a text', value)
}

export function listAt(value: unknown, place: string): readonly unknown[] {
  return Array.isArray(value) ? value : refuse(place, 'a list', value)
}

export function isGiven<T>(value: T): value is NonNullable<T> {
  return value !== undefined && value !== null
}

/** Adds the names of the fields that are given and not among the known ones. */
export function addUnknown(body: WireObject, known: ReadonlySet<string>, to: Set<string>): void {
  for (const [name, value] of Object.entries(body)) {
    if (isGiven(value) && !known.has(name)) to.add(name)
  }
}

/** The settings of a chat completions request that are given. */
export function given(settings: WireObject): WireObject {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => isGiven(value)))
}
