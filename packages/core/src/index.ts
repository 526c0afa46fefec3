export {
  causes,
  errorCategories,
  errorCategory,
  type ErrorCategory,
  errorMessage,
  isOsmosisError,
  OsmosisError,
  type OsmosisErrorCode,
} from './errors.ts'
export type { EgressOptions } from './http/egress/egress-policy.ts'
export type { PolicyLimits } from './policy/answer/answer-limits.ts'
export type { RolloutLimit, RolloutLimits } from './workflow/rollout-limits.ts'
export {
  definePolicyFaults,
  type PolicyFault,
  policyFaultIn,
  type PolicyFaultRule,
} from './policy/policy-faults.ts'
export { assertHeaderSafeId, isPathSegment } from './identifiers.ts'
export type { PolicyCall } from './policy/call-log.ts'
export type { StartingModelCall, PolicyClient } from './policy/policy-client.ts'
export type { PolicyCallOptions, PolicyStream } from './policy/policy-stream.ts'
export type { PolicyWire } from './policy/policy-wire.ts'
export {
  getRolloutContext,
  requireRolloutContext,
  RolloutContext,
  type RolloutContextInit,
  type RolloutWrapper,
  wrapRollouts,
} from './rollout-context.ts'
export { type AnswerObjectOptions, lastAssistantObject } from './answer/last-assistant-object.ts'
export { type AnswerTextOptions, lastAssistantText } from './answer/last-assistant-text.ts'
export { type SampleToolCall, toolCalls } from './answer/tool-calls.ts'
export { type RolloutSample, type RolloutSampleInit, toRolloutSample } from './rollout-sample.ts'
export {
  type NativeCall,
  type NativeMessages,
  NativeSample,
  sharedSampleSource,
} from './native-sample.ts'
export type { SampleSource } from './sample-registry.ts'
export {
  defineReward,
  type EvalFunction,
  type EvalInput,
  isRewardFunction,
  type RewardFunction,
} from './workflow/scoring-functions.ts'
export {
  AgentWorkflow,
  type AgentWorkflowClass,
  type AgentWorkflowContext,
  type AgentWorkflowOutput,
  type RolloutGroup,
  type PromptMessage,
  type WorkFolderOptions,
} from './workflow/agent-workflow.ts'
export {
  defineGraderConfig,
  defineWorkflowConfig,
  type BaseConfig,
  type BaseGraderConfig,
  type BaseWorkflowConfig,
  type ConcurrencyConfig,
  type GraderConfig,
  type GroupSettings,
  type WorkflowConfig,
} from './workflow/config.ts'
export { Grader, type GraderClass, type GraderContext } from './workflow/grader.ts'
export {
  GroupGrader,
  type FailedMember,
  type GroupGraderClass,
  type GroupGraderContext,
  type GroupMember,
} from './workflow/group-grader.ts'
export {
  parseRow,
  rowProblems,
  type RowSchemas,
  type AnyMetadata,
  type MetadataIssue,
  type MetadataOf,
  type MetadataResult,
  type MetadataSchema,
} from './workflow/metadata-schema.ts'
