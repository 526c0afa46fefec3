export type { AdkContent } from './adk-types.ts'
export { toNewMessage } from './new-message.ts'
export { OsmosisLlm, type OsmosisLlmSettings } from './rollout-llm.ts'
