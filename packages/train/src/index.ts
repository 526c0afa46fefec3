export { type AdvantageOptions } from './batch/advantages.ts'
export {
  policyGradientBatch,
  type BatchOptions,
  type CountedBatch,
  type TrainableSample,
} from './batch/training-batch.ts'
export {
  type BatchSequence,
  type Learner,
  type PolicyLoss,
  type TrainingBatch,
  type UpdateSettings,
} from './learner.ts'
export {
  assertSameTraining,
  type LearnerIdentity,
  type TrainingIdentityOptions,
} from './loop/same-training.ts'
export { train } from './loop/train.ts'
export { defaultUpdate, type TrainOptions, type TrainResult } from './loop/train-options.ts'
export {
  type OpenRollouts,
  type RolloutSource,
  type SampledCalls,
} from './rollouts/rollout-source.ts'
export { servedRollouts, type ServedRolloutsOptions } from './rollouts/served-rollouts.ts'
export {
  estimateLearner,
  learnerProgramProblem,
  type LearnerFacts,
  type LearnerMemory,
  type LearnerProcessOptions,
  type TrainingLogger,
} from './local/learner-process.ts'
export { localLearnerIdentity, openLocalLearner, type LocalLearner } from './local/local-learner.ts'
export {
  openTinkerLearner,
  tinkerLearnerIdentity,
  type TinkerLearner,
} from './tinker/tinker-learner.ts'
export {
  type TinkerAddress,
  type TinkerLearnerOptions,
  type TinkerUsage,
} from './tinker/service/tinker-options.ts'
export {
  type BatchCounts,
  type CheckpointRecord,
  type TrainingOutcome,
  type EvaluationRecord,
  type StartRecord,
  type StepFigures,
  type StepRecord,
  type StepSettings,
  type TrainingRecord,
  type UpdateFigures,
} from '@osmosis/eval/analysis'
