export type { PolicyCall } from './policy/call-log.ts'
export { chunkFromCompletion, CompletionAccumulator } from './policy/completion-accumulator.ts'
export {
  policyModelName,
  type PolicyCallOptions,
  type PolicyClient,
} from './policy/policy-client.ts'
export {
  isRetryableStatus,
  parseRetryAfter,
  retryRequest,
  type RetryOptions,
} from './policy/retry.ts'
export type { WireTranscript } from './policy/transcript.ts'
export {
  isRetryablePolicyError,
  postToPolicy,
  type PolicyAnswer,
  type PolicyPostOptions,
} from './policy/transport.ts'
