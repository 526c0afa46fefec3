export type { PolicyCall } from './policy/call-log.ts'
export {
  policyModelName,
  type PolicyCallOptions,
  type PolicyClient,
} from './policy/policy-client.ts'
export type { PolicyWire } from './policy/policy-wire.ts'
export type { WireTranscript } from './policy/transcript.ts'
export { isRetryableStatus } from './policy/transport.ts'
