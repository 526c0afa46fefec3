// The outcome table: what callers receive for each rollout, on every backend. Not published.
export { deliveries, onlySample, type DeliveryPath } from './deliveries.ts'
export { outcomeCases, type OutcomeCase } from './outcome-cases.ts'
