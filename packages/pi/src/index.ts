export { toAgentMessages } from './prompt-messages.ts'
export { rolloutStreamFn, type RolloutStreamSettings } from './rollout-stream.ts'
