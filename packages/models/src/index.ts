export type { ChatModel, ChatModelRequest } from './chat-model.ts'
export { type ModelEndpoint } from './judge/endpoint-model.ts'
export {
  evaluateRubric,
  type RubricOptions,
  type RubricScore,
  type RubricVote,
} from './judge/evaluate-rubric.ts'
export type { JudgeOptions } from './judge/ask-judge.ts'
export type { JudgedAnswer } from './judge/judge-prompt.ts'
export { pairwiseJudge, type PairwiseOptions, type PairwiseResult } from './judge/pairwise-judge.ts'
export { panel, type PanelOptions, type PanelScore } from './judge/panel.ts'
export { preflightPolicy, type PreflightOptions } from './preflight.ts'
export { providerModel, type ProviderModelOptions } from './provider/provider-model.ts'
export { providerOf, type Provider } from './provider/providers.ts'
