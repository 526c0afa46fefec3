export { toAgentInput } from './agent-input.ts'
export { OsmosisMemorySession, type OsmosisMemorySessionOptions } from './memory-session.ts'
export {
  OsmosisAgent,
  type AnyHandoff,
  type HandoffOutput,
  OsmosisRolloutModel,
  type AgentsRolloutModelOptions,
} from './osmosis-agent.ts'
export { instrumentRunner, type RunnerClass } from './sdk-interventions.ts'
