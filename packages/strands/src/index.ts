export {
  type OsmosisInvokeArgs,
  OsmosisStrandsAgent,
  type OsmosisStrandsAgentConfig,
} from './strands-agent.ts'
export type { PromptMessages } from './prompt-messages.ts'
export { OsmosisRolloutModel, type OsmosisRolloutModelOptions } from './rollout-model.ts'
export type { SamplingParams } from './sampling-params.ts'
