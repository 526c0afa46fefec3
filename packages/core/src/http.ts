// The HTTP client that model calls go through, and the parts of it that other HTTP clients and servers use.
export type { AnswerBody } from './http/answer-body.ts'
export { assertApiKey, bearer, carriesKey } from './http/bearer.ts'
export { completionsBaseUrl, completionsUrl } from './http/completions-url.ts'
export { EgressPolicy, type EgressOptions } from './http/egress-policy.ts'
export { beginningOf, cutEnd, errorTextBytes, longErrorTextBytes } from './http/error-text.ts'
export { startTimer, wait, type LongTimer } from './http/long-timer.ts'
export {
  outsideOfRollouts,
  createTransport,
  transportsByEgress,
  type Transport,
  type TransportOptions,
} from './http/transport.ts'
export { isForeign } from './http/readable-answer.ts'
export { bodyWithoutKeys, foreignText, webBody } from './http/refusal-text.ts'
export { ReleasingMap } from './http/releasing-map.ts'
export { retryAfterMs, shouldRetry, type AnswerHeaders } from './http/retry-after.ts'
export { isPassingStatus, retryRequest, type RetryOptions } from './http/retry.ts'
export type { HttpAnswer, HttpRequest } from './http/exchange.ts'
export { untilAborted, withTimeLimit } from './http/until-aborted.ts'
export { currentTraceHeaders, inTrace, type TraceHeaders } from './tracing/trace-api.ts'
