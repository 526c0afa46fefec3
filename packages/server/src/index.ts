export { discoverEntrypoint, type Entrypoint } from './execution/discover-entrypoint.ts'
export { LocalBackend, type LocalBackendOptions } from './execution/local-backend.ts'
export { runToEnd, type RewardRule, type ExecutionOutcome } from './execution/rollout-end.ts'
export type {
  BackendLoad,
  BackendWorkers,
  CancelDisposition,
  ExecutionBackend,
  GradingOutcome,
  ModelCallGates,
  RolloutEvent,
  RolloutFailure,
  RolloutRequest,
  RolloutSelector,
  RolloutStage,
  RolloutState,
  RolloutStatus,
  SamplesById,
  WorkflowOutcome,
} from '@osmosis/protocol'

export type { CallbackRetryOptions } from './delivery/callback-delivery.ts'
export { type HttpLimits, serve, type ListeningServer, type ServeOptions } from './process/serve.ts'
export { type ServableApp } from './http/server-shell.ts'
export type { LeaseOptions } from './leases/lease-registry.ts'
export { readServerEnvironment, type ServerEnvironment } from './process/server-environment.ts'
export type { ServerShell, ServerShellOptions } from './http/server-shell.ts'
export {
  createStderrLogger,
  silentLogger,
  type LogFormat,
  type LogFields,
  type Logger,
  type LogLevel,
  type StderrLoggerOptions,
} from './logging/logger.ts'
export {
  createRolloutServer,
  type RolloutServer,
  type RolloutServerOptions,
  type RolloutProtocolOptions,
} from './rollout-server.ts'
export type { OwnershipOptions } from './work/ownership-log.ts'
export type { PortRouteOptions } from './rollout/ports/port-routes.ts'
export type { RunAnswerRules } from './run/run-answer.ts'
export type { RunRouteOptions } from './run/run-request.ts'
export type { LifeHooks } from './work/server-life.ts'
