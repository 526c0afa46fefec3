export { fromChatMessages, toModelMessages, type ModelPrompt } from './chat-messages.ts'
export { type RolloutLanguageModel } from './language-model-types.ts'
export { rolloutModel, type RolloutModelSettings } from './rollout-model.ts'
export { OsmosisToolLoopAgent } from './tool-loop-agent.ts'
