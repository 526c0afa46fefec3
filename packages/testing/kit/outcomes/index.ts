// The outcome table: what callers are told of rollouts, whatever runs them. Not published.
export { deliveries, onlySample, type DeliveryPath } from './deliveries.ts'
export { outcomeCases, type OutcomeCase } from './outcome-cases.ts'
