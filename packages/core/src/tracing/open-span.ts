import { isOsmosisError } from '../errors.ts'
import type { Attributes, Span, TraceApi, TraceContext } from './trace-api.ts'

const kinds = { internal: 0, client: 2 } as const
const errorStatus = 2

/** What a span begins with. */
export interface SpanStart {
  readonly name: string
  /** Default: `internal`. */
  readonly kind?: keyof typeof kinds
  readonly attributes: Attributes
}

/** A span that has begun, and the context that its children are made in. */
export class OpenSpan {
  readonly span: Span
  readonly #api: TraceApi
  readonly #context: TraceContext

  constructor(api: TraceApi, parent: TraceContext, start: SpanStart) {
    const { name, kind = 'internal', attributes } = start
    const tracer = api.trace.getTracer('@osmosis/core')
    this.#api = api
    this.span = tracer.startSpan(name, { kind: kinds[kind], attributes }, parent)
    this.#context = api.trace.setSpan(parent, this.span)
  }

  /** Begins a span below this one. */
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
    this.#api.propagation.inject(this.#context, headers)
    return headers
  }

  fail(type: string, message?: string): void {
    this.span.setStatus({ code: errorStatus, ...(message === undefined ? {} : { message }) })
    this.span.setAttributes({ 'error.type': type })
  }
}

/** An error by a word of which there are few. */
export function errorType(error: unknown): string {
  if (isOsmosisError(error)) return error.code
  return error instanceof Error ? error.name : '_OTHER'
}
