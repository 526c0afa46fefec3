export { type Controller, createController } from './controller.ts'
export {
  type CallbackConflict,
  type ControllerOptions,
  type ServerAddress,
  type RunOptions,
} from './controller-options.ts'
export { type PolicyRequest, type PolicyModel } from './policy-model.ts'
export { type RolloutOrder } from './rollout-order.ts'
export {
  type CompletionReport,
  type ResultSample,
  type RolloutEnding,
  type RolloutErrorCategory,
  type RolloutOutcome,
  type TokenUsage,
} from './rollout-result.ts'
export { type ScriptedAnswer, type ScriptedToolCall } from './scripted-answer.ts'
export { type ScriptedCall, scriptedPolicy } from './scripted-policy.ts'
export { upstreamPolicy } from './upstream-policy.ts'
