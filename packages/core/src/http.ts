// The ground floor of every HTTP end of this SDK, for the other `@osmosis` packages. Not part of the
// promised API: names here may change in any version.
export { assertApiKey, bearer, carriesKey } from './http/bearer.ts'
export { boundedText } from './http/bounded-text.ts'
export { completionsBaseUrl, completionsUrl } from './http/completions-url.ts'
export { EgressPolicy, type EgressOptions } from './http/egress-policy.ts'
export { beginningOf, cutEnd, errorTextBytes, longErrorTextBytes } from './http/error-text.ts'
export { isForeign } from './http/readable-answer.ts'
export { foreignText } from './http/refusal-text.ts'
export { startTimer, wait, type LongTimer } from './http/long-timer.ts'
export { isPassingStatus, retryRequest, type RetryOptions } from './http/retry.ts'
export { bodyWithoutKeys } from './http/refusal-text.ts'
export { retryAfterMs, shouldRetry, type AnswerHeaders } from './http/retry-after.ts'
export { RolloutMemory, type RolloutMemoryLimits } from './http/rollout-memory.ts'
export { currentTraceHeaders, inTrace, type TraceHeaders } from './tracing/trace-api.ts'
export { toTelemetryJson } from './http/telemetry-json.ts'
export {
  createTransport,
  transportsByEgress,
  type HttpAnswer,
  type HttpRequest,
  type Transport,
  type TransportOptions,
} from './http/transport.ts'
export { untilAborted, withTimeLimit } from './http/until-aborted.ts'
export { webBody } from './http/web-body.ts'
