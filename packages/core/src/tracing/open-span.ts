import { isOsmosisError } from '../errors.ts'
import {
  attempt,
  type Attributes,
  type Span,
  type TraceApi,
  type TraceContext,
} from './trace-api.ts'

const kinds = { internal: 0, client: 2 } as const
const errorStatus = 2
/** Characters. */
const maxTypeLength = 100

/** What a span starts with. */
export interface SpanStart {
  readonly name: string
  /** Default: `internal`. */
  readonly kind?: keyof typeof kinds
  readonly attributes: Attributes
}

/** A span that has started, and the context of its children. Only `run` can throw. */
export class OpenSpan {
  readonly #api: TraceApi
  /** Undefined when the provider failed to start one; its children then belong to its parent. */
  readonly #span: Span | undefined
  readonly #context: TraceContext

  constructor(api: TraceApi, parent: TraceContext, start: SpanStart) {
    const { name, kind = 'internal', attributes } = start
    const options = { kind: kinds[kind], attributes }
    const span = attempt(api, () =>
      api.trace.getTracer('@osmosis/core').startSpan(name, options, parent),
    )
    this.#api = api
    this.#span = span
    this.#context = span === undefined ? parent : api.trace.setSpan(parent, span)
  }

  /** Starts a child span. */
  below(start: SpanStart): OpenSpan {
    return new OpenSpan(this.#api, this.#context, start)
  }

  /** Makes this the span of everything `fn` starts. */
  run<T>(fn: () => T): T {
    return this.#api.context.with(this.#context, fn)
  }

  /** The headers that continue the trace below this span. */
  headers(): Record<string, string> {
    const headers: Record<string, string> = {}
    attempt(this.#api, () => this.#api.propagation.inject(this.#context, headers))
    return headers
  }

  set(attributes: Attributes): void {
    attempt(this.#api, () => this.#span?.setAttributes(attributes))
  }

  add(event: string, attributes: Attributes): void {
    attempt(this.#api, () => this.#span?.addEvent(event, attributes))
  }

  fail(type: string, message?: string): void {
    const status = { code: errorStatus, ...(message === undefined ? {} : { message }) }
    attempt(this.#api, () => this.#span?.setStatus(status))
    this.set({ 'error.type': type })
  }

  end(): void {
    attempt(this.#api, () => this.#span?.end())
  }
}

/** The type of an error, of low cardinality. */
export function errorType(error: unknown): string {
  try {
    if (isOsmosisError(error)) return error.code
    const name: unknown = error instanceof Error ? error.name : undefined
    return typeof name === 'string' ? name.slice(0, maxTypeLength) : '_OTHER'
  } catch {
    // Getters of user code may throw.
    return '_OTHER'
  }
}
