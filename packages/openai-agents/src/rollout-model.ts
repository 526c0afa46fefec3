import type { Model, ModelResponse, StreamEvent } from '@openai/agents'
import { OsmosisError } from '@osmosis/core'

const brand = Symbol.for('osmosis.openai-agents.rollout-model')

/**
 * Stands where an agent's model stands, until {@link OsmosisAgent} puts the policy of its rollout
 * there. It has no options: sampling is set with the agent's `modelSettings`, and which weights
 * answer is decided outside of the program.
 */
export class OsmosisRolloutModel implements Model {
  readonly [brand] = true

  /** @throws OsmosisError with code `placeholder_model`, always */
  async getResponse(): Promise<ModelResponse> {
    throw placeholderCalled()
  }

  /** @throws OsmosisError with code `placeholder_model`, when the first event is asked for */
  // oxlint-disable-next-line require-yield
  async *getStreamedResponse(): AsyncGenerator<StreamEvent> {
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
    'OsmosisRolloutModel is a placeholder and answers nothing itself. Pass it as the `model` of an OsmosisAgent (not of an Agent, and not to a Runner), which replaces it with the policy of the active rollout.',
  )
}
