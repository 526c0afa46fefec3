// The outcome table: what callers are told of rollouts, whatever runs them. Not published.
export { deliveries, onlySample, type Delivery } from './deliveries.ts'
export { outcomeCases, type OutcomeCase } from './outcome-cases.ts'
