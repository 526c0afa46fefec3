import { createRequire } from 'node:module'

// What is used of `@opentelemetry/api`, written down here: programs that install no OpenTelemetry must
// compile against this package as well.

/** Data of a span. */
export type Attributes = Record<string, string | number | boolean | string[] | undefined>

export interface Span {
  setAttributes(attributes: Attributes): unknown
  addEvent(name: string, attributes: Attributes): unknown
  setStatus(status: { code: number; message?: string }): unknown
  end(): void
}

/** Opaque, but for values under keys of one's own. */
export interface TraceContext {
  getValue(key: symbol): unknown
  setValue(key: symbol, value: unknown): TraceContext
}

/** Headers by name. */
export type TraceHeaders = Readonly<Record<string, string>>

export interface TraceApi {
  readonly trace: {
    getTracer(name: string): {
      startSpan(
        name: string,
        options: { kind: number; attributes: Attributes },
        parent: TraceContext,
      ): Span
    }
    getSpan(context: TraceContext): Span | undefined
    setSpan(context: TraceContext, span: Span): TraceContext
  }
  readonly context: {
    active(): TraceContext
    with<T>(context: TraceContext, fn: () => T): T
  }
  /** Where OpenTelemetry says what went wrong with itself; nowhere, unless somebody listens. */
  readonly diag: { error(message: string, ...more: unknown[]): void }
  readonly propagation: {
    extract(context: TraceContext, headers: TraceHeaders): TraceContext
    inject(context: TraceContext, headers: Record<string, string>): void
  }
}

/** Where every copy of the API keeps what was registered. */
const registry = Symbol.for('opentelemetry.js.api.1')

let loaded: TraceApi | undefined

/**
 * The API, when somebody has registered a provider for traces. Until then it is not even loaded, so that
 * whoever wants no traces pays for none.
 */
export function traceApi(): TraceApi | undefined {
  const { [registry]: registered } = globalThis as { [registry]?: { trace?: unknown } }
  return registered?.trace === undefined ? undefined : (loaded ??= load())
}

/** At once: a rollout is known from the moment on that it was handed over. */
function load(): TraceApi | undefined {
  try {
    return createRequire(import.meta.url)('@opentelemetry/api') as TraceApi
  } catch {
    // An application that registers a provider has the package, but not always where this one looks.
    return undefined
  }
}

/**
 * Does something with what somebody else has registered: providers, processors of spans, propagators. What
 * one of these throws costs a part of a trace, and no rollout.
 */
export function attempt<T>({ diag }: TraceApi, use: () => T): T | undefined {
  try {
    return use()
  } catch (error) {
    diag.error('a trace of @osmosis/core is not complete', error)
    return undefined
  }
}

/** The headers that continue the trace this code runs in; none without a provider. */
export function currentTraceHeaders(): Record<string, string> {
  const headers: Record<string, string> = {}
  const api = traceApi()
  if (api !== undefined) {
    attempt(api, () => api.propagation.inject(api.context.active(), headers))
  }
  return headers
}

/** Runs `fn` in the trace that came with these headers, unless it runs in one already. */
export function inTrace<T>(headers: TraceHeaders, fn: () => T): T {
  const api = traceApi()
  if (api === undefined) return fn()
  return api.context.with(parentOf(api, headers), fn)
}

/** The trace that this code runs in, or else the one of the headers. */
export function parentOf(api: TraceApi, headers: TraceHeaders = {}): TraceContext {
  const { context, trace, propagation } = api
  const active = context.active()
  if (trace.getSpan(active) !== undefined) return active
  return attempt(api, () => propagation.extract(active, headers)) ?? active
}
