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
  type BackendRule,
  backendRules,
  type BackendUnderTest,
  type ClosableBackend,
} from './backend-contract/backend-rules.ts'
export {
  type ContractEntrypoint,
  contractEntrypoints,
} from './backend-contract/contract-entrypoints.ts'
export {
  type BackendTestRunner,
  runBackendContract,
} from './backend-contract/run-backend-contract.ts'
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
export {
  FakeAgentLightning,
  type FakeAgentLightningOptions,
} from './trainers/fake-agent-lightning.ts'
export {
  type GatewayEvent,
  type QueuedRollout,
  type RolloutOnGateway,
} from './trainers/gateway-store.ts'
export { randomFaults } from './trainers/random-faults.ts'
export {
  FakeMiles,
  type FakeMilesOptions,
  type MilesRollout,
  type MilesRow,
} from './trainers/fake-miles.ts'
export { type FakeModel, type TrainedCall } from './trainers/trained-call.ts'
export {
  FakeTrinity,
  type FakeTrinityOptions,
  type TrinityCall,
  type UnrewardedCall,
} from './trainers/fake-trinity.ts'
export {
  type TrainerFault,
  type TrainerFaults,
  type ReceivedTrainerRequest,
} from './trainers/trainer-http.ts'
export {
  FakeOsmosis,
  type FakeOsmosisOptions,
  type TrainingRollout,
  type TrainingRow,
} from './trainers/fake-osmosis.ts'
export { learn } from './training/learn.ts'
export {
  TinyPolicy,
  type SavedTinyPolicy,
  type UpdateOptions,
  type WeighedCall,
} from './training/tiny-policy.ts'
