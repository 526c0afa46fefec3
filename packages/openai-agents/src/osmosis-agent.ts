import {
  Agent,
  type AgentConfiguration,
  type AgentConfigWithHandoffs,
  type AgentOptions,
  type AgentOutputType,
  type Handoff,
  type TextOutput,
  type UnknownContext,
  type Model,
  type ModelResponse,
  type StreamEvent,
} from '@openai/agents'
import { requireRolloutContext, OsmosisError, type PolicyCallOptions } from '@osmosis/core'

import { AgentsPolicyModel } from './policy-model.ts'
import { prepareSdk } from './sdk-interventions.ts'

const brand = Symbol.for('osmosis.openai-agents.rollout-model')

/**
 * Stands where an agent's model stands, until {@link OsmosisAgent} puts the policy of its rollout
 * there. Sampling is set with the agent's `modelSettings`, and which weights answer is decided outside of
 * the program.
 */
export class OsmosisRolloutModel implements Model {
  readonly [brand] = true
  readonly options: Pick<PolicyCallOptions, 'purpose' | 'trainable'>

  /** @param options - what the calls of the model are for, and whether its answers are training data */
  constructor(options: Pick<PolicyCallOptions, 'purpose' | 'trainable'> = {}) {
    this.options = options
  }

  /** @throws OsmosisError with code `placeholder_model`, always */
  async getResponse(): Promise<ModelResponse> {
    throw placeholderCalled()
  }

  /** @throws OsmosisError with code `placeholder_model`, when the first event is read */
  // oxlint-disable-next-line require-yield
  async *getStreamedResponse(): AsyncGenerator<StreamEvent> {
    throw placeholderCalled()
  }
}

/** True for a placeholder of this or any other installed copy of the package. */
function isRolloutModel(value: unknown): value is OsmosisRolloutModel {
  return typeof value === 'object' && value !== null && brand in value
}

function placeholderCalled(): OsmosisError {
  return new OsmosisError(
    'placeholder_model',
    'OsmosisRolloutModel is a placeholder and answers nothing itself. Pass it as the `model` of an OsmosisAgent (not of an Agent, and not to a Runner), which replaces it with the policy of the active rollout.',
  )
}

// The SDK's own `create` bounds its handoffs this way; only `any` is wide enough for agents of
// every context and output.
// oxlint-disable-next-line typescript/no-explicit-any
export type AnyHandoff = Agent<any, any> | Handoff<any, any>

/** The output types of the agents that may take over; the SDK has this type but does not export it. */
export type HandoffOutput<THandoff extends AnyHandoff> =
  | (THandoff extends Agent<infer _TContext, infer TOutput> ? TOutput : never)
  | (THandoff extends Handoff<infer _TContext, infer TOutput> ? TOutput : never)

/**
 * An `Agent` whose {@link OsmosisRolloutModel} is the policy of the rollout it was made in.
 * Everything else is the SDK's agent: tools, handoffs, guardrails, hooks, `asTool`, output types.
 * Make it inside `AgentWorkflow.run()`. With any other model it is a plain agent, inside a rollout
 * and out.
 */
export class OsmosisAgent<
  TContext = UnknownContext,
  TOutput extends AgentOutputType = TextOutput,
> extends Agent<TContext, TOutput> {
  /**
   * @throws OsmosisError with code `no_rollout_context` when the model is an
   * {@link OsmosisRolloutModel} and there is no active rollout
   */
  constructor(config: AgentOptions<TContext, TOutput>) {
    super(bound(config))
  }

  /** As `Agent.create`: infers the output type from those of the handoffs. */
  static override create<
    TOutput extends AgentOutputType = TextOutput,
    THandoffs extends readonly AnyHandoff[] = [],
  >(
    config: AgentConfigWithHandoffs<TOutput, THandoffs>,
  ): OsmosisAgent<UnknownContext, TOutput | HandoffOutput<THandoffs[number]>> {
    return adopted(Agent.create<TOutput, THandoffs>(bound(config)))
  }

  /** As `Agent.clone`; a placeholder in `config` is bound to the active rollout. */
  override clone(
    config: Partial<AgentConfiguration<TContext, TOutput>>,
  ): OsmosisAgent<TContext, TOutput> {
    return adopted(super.clone(bound(config)))
  }
}

function bound<T extends { model?: unknown }>(config: T): T {
  if (!isRolloutModel(config.model)) return config
  const context = requireRolloutContext('An OsmosisAgent with an OsmosisRolloutModel')
  prepareSdk()
  return { ...config, model: new AgentsPolicyModel(context, config.model.options) }
}

/**
 * The SDK's `create` and `clone` build plain agents, with settings that a constructor call from
 * here could not repeat. OsmosisAgent adds no fields, so changing the prototype is exact.
 */
function adopted<TContext, TOutput extends AgentOutputType>(
  agent: Agent<TContext, TOutput>,
): OsmosisAgent<TContext, TOutput> {
  return Object.setPrototypeOf(agent, OsmosisAgent.prototype) as OsmosisAgent<TContext, TOutput>
}
