// What servers of other rollout protocols are made of; users of this one need none of it.
export { assertApiKey, carriesKey } from './bearer-key.ts'
export { bodyDigest } from './body-digest.ts'
export { checkBody } from './body-schema.ts'
export {
  CallbackDelivery,
  type Callback,
  type CallbackDeliveryOptions,
  type DeliveryOutcome,
} from './callback-delivery.ts'
export { HttpRefusal, type BodyProblem } from './http-refusal.ts'
export { redactingLogger } from './redacting-logger.ts'
export { readJsonBody } from './request-body.ts'
export { SecretValues } from './secret-values.ts'
export {
  ServerDrain,
  type DrainedParts,
  type DrainedWork,
  type DrainTimes,
} from './server-drain.ts'
export { toTelemetryJson } from './telemetry-json.ts'
