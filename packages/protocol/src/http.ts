export { boundedBytes, boundedText } from './http/bounded-text.ts'
export { RolloutMemory, type RolloutMemoryLimits } from './http/rollout-memory.ts'
export { toTelemetryJson } from './http/telemetry-json.ts'
export { SecretValues, shortestSecret } from './http/secret-values.ts'
