export type { LeasedOrder, RolloutOrder } from './workflow/rollout-order.ts'
export type { LeasedResult } from './client/lease.ts'
export {
  createPolicyEndpoint,
  type PolicyAccess,
  type PolicyEndpoint,
  type PolicyEndpointOptions,
} from './client/policy-endpoint.ts'
export {
  createRolloutClient,
  type LeasedRunOptions,
  type RolloutClient,
  type RolloutClientOptions,
  type WaitIdleOptions,
} from './client/rollout-client.ts'
export type { RolloutHandle, RolloutPhase } from './client/rollout-handle.ts'
export type { DrainReport, IdleReport } from './client/server-lifecycle.ts'
export type { ServerAddress } from './http/server-client.ts'
export {
  type LoopOrder,
  createTrainer,
  type Trainer,
  type TrainerOptions,
  type TrainerRunOptions,
} from './loop/trainer.ts'
export type { AnsweredCall, AnswerHook, LoopOutcome } from './loop/loop-outcome.ts'
export {
  type ModelPrice,
  recordPolicy,
  type RecordPolicyOptions,
  type PolicyTrouble,
  type RecordedPolicy,
  type RecordedTranscript,
  type RolloutRecording,
} from './policy/record-policy.ts'
export {
  evaluatedPolicy,
  type EvaluatedPolicy,
  type EvaluatedPolicyOptions,
} from './policy/evaluated-policy.ts'
export {
  patientPolicy,
  type PatientPolicy,
  type PatientPolicyOptions,
} from './policy/patient-policy.ts'
export type { PolicyModel, PolicyRequest } from './policy/policy-model.ts'
export {
  type ScriptedAnswer,
  type ScriptedCall,
  scriptedPolicy,
  type ScriptedToolCall,
} from './policy/scripted-policy.ts'
export { upstreamPolicy, type UpstreamPolicy } from './policy/upstream-policy.ts'
export type { TokenUsage } from './policy/usage.ts'
export { policyAnswers, watchPolicy, type WatchedPolicy } from './policy/watch-policy.ts'
export type { CallbackConflict, RolloutEnding, RolloutFacts } from './session/rollout-sessions.ts'
export {
  createController,
  type Controller,
  type ControllerOptions,
  type RunOptions,
} from './workflow/controller.ts'
export type {
  CompletionReport,
  CallReport,
  ResultSample,
  RolloutErrorCategory,
  RolloutOutcome,
} from './workflow/rollout-outcome.ts'
