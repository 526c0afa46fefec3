export { type BackendRule } from './backend-rules.ts'
export { contractEntrypoints, type ContractEntrypoint } from './contract-entrypoints.ts'
export { runBackendContract } from './run-backend-contract.ts'
