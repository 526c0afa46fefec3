import { createRequire } from 'node:module'

// The part of `@opentelemetry/api` that is used here. Declared again, so that programs without OpenTelemetry
// can compile against this package.

/** Data of a span. */
export type Attributes = Record<string, string | number | boolean | string[] | undefined>

export interface Span {
  setAttributes(attributes: Attributes): unknown
  addEvent(name: string, attributes: Attributes): unknown
  setStatus(status: { code: number; message?: string }): unknown
  end(): void
}

/** Opaque, except for values under one's own keys. */
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
  /** Where OpenTelemetry reports its own errors. */
  readonly diag: { error(message: string, ...more: unknown[]): void }
  readonly propagation: {
    extract(context: TraceContext, headers: TraceHeaders): TraceContext
    inject(context: TraceContext, headers: Record<string, string>): void
  }
}

/** Where every copy of the API stores registrations. */
const registry = Symbol.for('opentelemetry.js.api.1')

let loaded: TraceApi | undefined

/**
 * The API, if a trace provider is registered. Until then the package is not loaded, so that tracing costs
 * nothing while it is off.
 */
export function traceApi(): TraceApi | undefined {
  const { [registry]: registered } = globalThis as { [registry]?: { trace?: unknown } }
  return registered?.trace === undefined ? undefined : (loaded ??= load())
}

/** Synchronous, because the trace of a rollout has to start when the rollout does. */
function load(): TraceApi | undefined {
  try {
    return createRequire(import.meta.url)('@opentelemetry/api') as TraceApi
  } catch {
    // The application has the package, but this one may not find it.
    return undefined
  }
}

/**
 * Calls a registered provider, span processor or propagator. If it throws, the trace is incomplete, but the
 * rollout continues.
 */
export function attempt<T>({ diag }: TraceApi, use: () => T): T | undefined {
  try {
    return use()
  } catch (error) {
    diag.error('a trace of @osmosis/core is not complete', error)
    return undefined
  }
}

/** The headers that continue the current trace; none without a provider. */
export function currentTraceHeaders(): Record<string, string> {
  const headers: Record<string, string> = {}
  const api = traceApi()
  if (api !== undefined) {
    attempt(api, () => api.propagation.inject(api.context.active(), headers))
  }
  return headers
}

/** Runs `fn` in the trace of these headers, unless this code already runs in one. */
export function inTrace<T>(headers: TraceHeaders, fn: () => T): T {
  const api = traceApi()
  if (api === undefined) return fn()
  return api.context.with(parentOf(api, headers), fn)
}

/** The current trace, or else that of the headers. */
export function parentOf(api: TraceApi, headers: TraceHeaders = {}): TraceContext {
  const { context, trace, propagation } = api
  const active = context.active()
  if (trace.getSpan(active) !== undefined) return active
  return attempt(api, () => propagation.extract(active, headers)) ?? active
}
