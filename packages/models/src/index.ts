export type { ChatModel, ChatModelRequest } from './chat-model.ts'
export { preflightPolicy, type PreflightOptions } from './preflight.ts'
export { providerModel, type ProviderModelOptions } from './provider/provider-model.ts'
export { providerNames, providerOf, type Provider } from './provider/providers.ts'
