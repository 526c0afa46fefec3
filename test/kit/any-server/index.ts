export { failures, floods, reports, type Failure } from './failures.ts'
export {
  conversations,
  hasWholeCalls,
  offeredTools,
  type GivenCall,
  type PolicyTurn,
} from './policy-turns.ts'
export {
  llamaCpp,
  vllm,
  serverDialects,
  tellsCallsApartByArguments,
  type ServerDialect,
} from './server-dialects.ts'
export { givenId, writeAnswer, type WrittenAnswer } from './written-answers.ts'
