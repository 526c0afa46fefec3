export {
  type AdapterUnderTest,
  type ContractRule,
  contractRules,
  type ContractRun,
  type ContractTool,
} from './adapter-contract/adapter-rules.ts'
export {
  type ContractTestRunner,
  runAdapterContract,
} from './adapter-contract/run-adapter-contract.ts'
export {
  fault,
  type Faults,
  type FaultyReply,
  type OmittedPart,
  type Reply,
  type StatusReply,
} from './policy-reply.ts'
export { type PolicyScript, type PolicyServer, startPolicyServer } from './policy-server.ts'
export { type ReceivedRequest } from './received-request.ts'
export { sseOf } from './sse-text.ts'
