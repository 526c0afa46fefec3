export type { CallbackRetryOptions } from './callback-delivery.ts'
export {
  createStderrLogger,
  silentLogger,
  type LogFields,
  type Logger,
  type LogLevel,
} from './logger.ts'
export type { RolloutServerOptions } from './rollout-server-options.ts'
export { createRolloutServer, type RolloutServer } from './rollout-server.ts'
export { serve, type ListeningServer, type ServableApp, type ServeOptions } from './serve.ts'
export { readServerEnvironment, type ServerEnvironment } from './server-environment.ts'
