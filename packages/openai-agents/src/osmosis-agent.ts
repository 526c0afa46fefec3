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
import {
  getRolloutContext,
  OsmosisError,
  type PolicyCallOptions,
  requireRolloutContext,
} from '@osmosis/core'
import { type FallbackModel, fallbackModel } from '@osmosis/core/workflow'

import { AgentsPolicyModel } from './policy-model.ts'
import { prepareSdk } from './sdk-interventions.ts'

const brand = Symbol.for('osmosis.openai-agents.rollout-model')

/** Options of {@link OsmosisRolloutModel}: what its calls are for, and whether its answers are training data. */
export interface AgentsRolloutModelOptions extends Pick<
  PolicyCallOptions,
  'purpose' | 'trainable'
> {
  /**
   * The model outside of rollouts, as an `Agent` takes it, so that one program serves both. A function that makes it is
   * called when it is first needed.
   */
  readonly fallback?: string | FallbackModel<Model> | undefined
}

/**
 * Stands where an agent's model stands, until {@link OsmosisAgent} puts the policy of its rollout
 * there. Sampling is set with the agent's `modelSettings`, and which weights answer is decided outside of
 * the program.
 */
export class OsmosisRolloutModel implements Model {
  readonly [brand] = true
  readonly options: AgentsRolloutModelOptions

  constructor(options: AgentsRolloutModelOptions = {}) {
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
 * Make it inside `AgentWorkflow.run()`. Made outside, it needs a model with a `fallback`: it then uses that outside of
 * rollouts, and inside the policy of the rollout that runs it. With any other model it is a plain agent.
 */
export class OsmosisAgent<
  TContext = UnknownContext,
  TOutput extends AgentOutputType = TextOutput,
> extends Agent<TContext, TOutput> {
  /**
   * @throws OsmosisError with code `no_rollout_context` when the model is an
   * {@link OsmosisRolloutModel} without a `fallback`, and there is no active rollout
   */
  constructor(config: AgentOptions<TContext, TOutput>) {
    super(bound(config))
    bindModel(this, config.model)
  }

  /** As `Agent.create`: infers the output type from those of the handoffs. */
  static override create<
    TOutput extends AgentOutputType = TextOutput,
    THandoffs extends readonly AnyHandoff[] = [],
  >(
    config: AgentConfigWithHandoffs<TOutput, THandoffs>,
  ): OsmosisAgent<UnknownContext, TOutput | HandoffOutput<THandoffs[number]>> {
    return adopted(Agent.create<TOutput, THandoffs>(bound(config)), config.model)
  }

  /** As `Agent.clone`; a placeholder in `config` is bound to the active rollout. */
  override clone(
    config: Partial<AgentConfiguration<TContext, TOutput>>,
  ): OsmosisAgent<TContext, TOutput> {
    const model = config.model ?? placeholders.get(this)
    return adopted(super.clone(model ? bound({ ...config, model }) : config), model)
  }
}

/** The placeholders of agents that were made outside of rollouts. */
const placeholders = new WeakMap<object, OsmosisRolloutModel>()

function bound<T extends { model?: unknown }>(config: T): T {
  const { model } = config
  if (!isRolloutModel(model)) return config
  const { fallback } = model.options
  if (fallback === undefined) {
    requireRolloutContext('An OsmosisAgent with an OsmosisRolloutModel without a fallback')
  }
  // What a function makes is needed when a run reads the model of the agent, and not before.
  const outside = typeof fallback === 'function' ? model : fallback
  return { ...config, model: policyOfRollout(model) ?? outside }
}

function modelOutside({ options }: OsmosisRolloutModel): string | Model | undefined {
  return options.fallback === undefined ? undefined : fallbackModel(options.fallback)
}

function policyOfRollout({ options }: OsmosisRolloutModel): AgentsPolicyModel | undefined {
  const context = getRolloutContext()
  if (context === undefined) return undefined
  prepareSdk()
  return new AgentsPolicyModel(context, options)
}

/**
 * Names the policy for its agent, and gives an agent that was made outside of rollouts the policy wherever a rollout
 * runs it.
 */
function bindModel(agent: { name: string; model: unknown }, placeholder: unknown): void {
  if (agent.model instanceof AgentsPolicyModel) agent.model = agent.model.namedFor(agent.name)
  if (!isRolloutModel(placeholder) || getRolloutContext() !== undefined) return
  placeholders.set(agent, placeholder)
  // Runs read the model before each call. The SDK knows names of models better than a model could, so there is none
  // in between. It is not enumerable, because clones copy what is.
  Object.defineProperty(agent, 'model', {
    enumerable: false,
    configurable: true,
    get: () => policyOfRollout(placeholder)?.namedFor(agent.name) ?? modelOutside(placeholder),
    set: (value) => {
      placeholders.delete(agent)
      Object.defineProperty(agent, 'model', { value, writable: true, enumerable: true })
    },
  })
}

/**
 * The SDK's `create` and `clone` build plain agents, with settings that a constructor call from
 * here could not repeat. OsmosisAgent adds no fields, so changing the prototype is exact.
 */
function adopted<TContext, TOutput extends AgentOutputType>(
  agent: Agent<TContext, TOutput>,
  model: unknown,
): OsmosisAgent<TContext, TOutput> {
  const own = Object.setPrototypeOf(agent, OsmosisAgent.prototype) as OsmosisAgent<
    TContext,
    TOutput
  >
  bindModel(own, model)
  return own
}
