export {
  CallLog,
  type CallRecorder,
  type PolicyCall,
  type TrainedConversation,
  wireTranscript,
  type WireTranscript,
} from './policy/call-log.ts'
export type {
  AssistantMessage,
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionRequest,
  ChatContentPart,
  ChatDelta,
  ChatLogprobs,
  ChatMessage,
  ChatToolCall,
  ChatToolCallDelta,
  ChatUsage,
} from './policy/chat-completion.ts'
export {
  type AnswerListener,
  PassingAnswer,
  StreamedAnswer,
  type StreamedAnswerOptions,
} from './policy/answer/streamed-answer.ts'
export { argumentsObject, nameForAgent } from './policy/answer/malformed-calls.ts'
export { isFullContext } from './policy/full-context.ts'
export type { PolicyClient } from './policy/policy-client.ts'
export type { PolicyCallOptions } from './policy/policy-stream.ts'
export {
  aboutCall,
  type CallAbout,
  callUse,
  type CallUse,
  policyModelName,
  purposeHeader,
  trainableHeader,
  useHeaderNames,
  type PolicyWire,
} from './policy/policy-wire.ts'
export { RolloutBudget } from './workflow/rollout-limits.ts'
export { isRetryableStatus } from './policy/policy-endpoint.ts'
