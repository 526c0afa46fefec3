export { toModelMessages } from './prompt-messages.ts'
export { rolloutMemory, type MastraThread } from './rollout-memory.ts'
export {
  rolloutModel,
  type MastraModelSettings,
  type MastraRolloutModel,
  type MastraSettingsWithFallback,
} from './rollout-model.ts'
export { scoreSample, type SampleScorer, type ScorerVerdict } from './sample-score.ts'
