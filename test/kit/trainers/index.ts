export { FakeAgentLightning } from './fake-agent-lightning.ts'
export type { GatewayEvent, QueuedRollout, RolloutOnGateway } from './gateway-store.ts'
export { FakeMiles, type FakeMilesOptions, type MilesRollout, type MilesRow } from './fake-miles.ts'
export {
  FakeOsmosis,
  type FakeOsmosisOptions,
  type TrainingRollout,
  type TrainingRow,
} from './fake-osmosis.ts'
export { learn } from './learn.ts'
export { randomFaults } from './random-faults.ts'
export { TinyPolicy, type SavedTinyPolicy, type WeighedCall } from './tiny-policy.ts'
export type { FakeModel, TrainedCall } from './trained-call.ts'
export type { ReceivedTrainerRequest, TrainerFault, TrainerFaults } from './trainer-http.ts'
