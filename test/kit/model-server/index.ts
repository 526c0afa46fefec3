export { modelServerKey, modelServerModel, type ModelServer } from './model-server.ts'
export { RecordingProxy, type RecordedExchange } from './recording-proxy.ts'
export { ownModelServer, withModelServer } from './with-model-server.ts'
