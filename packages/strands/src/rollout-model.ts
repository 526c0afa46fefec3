import { OsmosisError, type RolloutContext } from '@osmosis/core'
import { policyModelName } from '@osmosis/core/policy'
import { type FallbackModel, fallbackModel } from '@osmosis/core/workflow'
import { type BaseModelConfig, Model, type ModelStreamEvent } from '@strands-agents/sdk'

import { type StrandsCallUse, StrandsPolicyModel } from './policy-model.ts'
import { type SamplingParams, toRequestSettings } from './sampling-params.ts'

const brand = Symbol.for('osmosis.strands.rollout-model')

/** Options of {@link OsmosisRolloutModel}. */
export interface OsmosisRolloutModelOptions {
  /** Default: none, so that the endpoint decides. */
  readonly params?: Readonly<SamplingParams>
  /**
   * What an answer that the token limit cut off does: `throw` Strands' `MaxTokensError` (the
   * default), or `stop` the turn with the stop reason `length`.
   */
  readonly onLength?: 'throw' | 'stop'
  /** What the model's calls are for, such as `title`. Default: `agent`. */
  readonly purpose?: string | undefined
  /** Whether its answers are training data. Default: true. */
  readonly trainable?: boolean | undefined
  /**
   * The model outside of rollouts, with settings of its own, so that one program serves both. A function that makes it
   * is called when the first agent is made outside.
   */
  readonly fallback?: FallbackModel<Model> | undefined
}

/**
 * Stands where an agent's model stands, until `OsmosisStrandsAgent` puts the policy of its rollout
 * there. It carries the sampling parameters and may be shared by any number of agents; which
 * weights answer is decided outside of the program.
 */
export class OsmosisRolloutModel extends Model {
  readonly [brand] = true
  /** As they were given; frozen. */
  readonly params: Readonly<SamplingParams>
  /** What an answer that the token limit cut off does. */
  readonly onLength: 'throw' | 'stop'
  readonly #fallback: FallbackModel<Model> | undefined
  readonly #use: StrandsCallUse

  /** @throws OsmosisError with code `invalid_config` for parameters that cannot be set here */
  constructor(options: OsmosisRolloutModelOptions = {}) {
    super()
    this.params = Object.freeze({ ...options.params })
    this.onLength = options.onLength ?? 'throw'
    this.#fallback = options.fallback
    this.#use = { purpose: options.purpose, trainable: options.trainable }
    toRequestSettings(this.params)
  }

  /** The model outside of rollouts. */
  get fallback(): Model | undefined {
    return this.#fallback === undefined ? undefined : fallbackModel(this.#fallback)
  }

  /**
   * The policy as a model of Strands, for one sample. `OsmosisStrandsAgent` calls this.
   *
   * @throws OsmosisError with code `invalid_id`
   */
  forSample(sampleId: string, context: RolloutContext): Model {
    return new StrandsPolicyModel(context, sampleId, {
      ...toRequestSettings(this.params),
      ...this.#use,
      onLength: this.onLength,
    })
  }

  /** The name that every request gives as its model. */
  override getConfig(): BaseModelConfig {
    return { modelId: policyModelName }
  }

  /** @throws OsmosisError with code `placeholder_model`, always */
  override updateConfig(): never {
    throw placeholderCalled()
  }

  /** @throws OsmosisError with code `placeholder_model`, when the first event is read */
  // oxlint-disable-next-line require-yield
  override async *stream(): AsyncGenerator<ModelStreamEvent> {
    throw placeholderCalled()
  }

  /** @throws OsmosisError with code `placeholder_model`, when the first event is read */
  // oxlint-disable-next-line require-yield
  override async *streamAggregated(): ReturnType<Model['streamAggregated']> {
    throw placeholderCalled()
  }
}

/** True for a placeholder of this or any other installed copy of the package. */
export function isRolloutModel(value: unknown): value is OsmosisRolloutModel {
  return typeof value === 'object' && value !== null && brand in value
}

function placeholderCalled(): OsmosisError {
  return new OsmosisError(
    'placeholder_model',
    'OsmosisRolloutModel is a placeholder and answers nothing itself. Pass it as the `model` of an OsmosisStrandsAgent (not of an Agent), which replaces it with the policy of the active rollout.',
  )
}
