export type { TrainerRow } from '@osmosis/server/protocols'

export { agentLightning, type AgentLightningOptions } from './agent-lightning.ts'
export {
  runTrainerWorker,
  type TrainerWorkerOptions,
  type WorkerSummary,
} from './trainer-worker.ts'
export type { TrainerLink, TrainerTask } from './trainer-link.ts'
