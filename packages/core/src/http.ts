// The HTTP client of model calls, and its parts that other HTTP clients and servers use.
export { bodyWithoutKeys, foreignText, isForeign, webBody } from './http/error-body.ts'
export type { ResponseBody, ResponseHeaders, HttpResponse } from './http/response.ts'
export { assertApiKey, bearer, carriesKey, secretForms } from './http/bearer.ts'
export { EgressPolicy, type EgressOptions } from './http/egress/egress-policy.ts'
export { isLoopback } from './http/egress/loopback.ts'
export {
  beginningOf,
  cutEnd,
  errorTextBytes,
  longErrorTextBytes,
  shownUrl,
} from './http/error-text.ts'
export type { EndpointNames, HttpRequest } from './http/exchange.ts'
export { isJsonObject, parseJson } from './http/json.ts'
export { isAboutKey, isAboutModel, type RefusedCall, refusalOf } from './http/refused-call.ts'
export { ReleasingMap } from './http/releasing-map.ts'
export {
  awayPatienceMs,
  isAway,
  isTransientStatus,
  retryAfterMs,
  retryRequest,
  type FailedRequest,
  type RetryOptions,
} from './http/retry.ts'
export {
  createTransport,
  runOutsideRollout,
  transportsByEgress,
  type Transport,
  type TransportOptions,
} from './http/transport.ts'
export {
  startTimer,
  timeLimit,
  untilAborted,
  wait,
  withTimeLimit,
  type LongTimer,
} from './http/waiting.ts'
export { completionsBaseUrl, completionsUrl } from './policy/policy-endpoint.ts'
export { currentTraceHeaders, inTrace, type TraceHeaders } from './tracing/trace-api.ts'
