import { getRolloutContext, OsmosisError } from '@osmosis/core'
import * as sdk from 'ai'
import type { Output, ToolLoopAgentSettings, ToolSet } from 'ai'

import { isRolloutModel } from './policy-model.ts'
import { newRolloutModel } from './rollout-model.ts'
import { newRecord } from './rollout-records.ts'
import { noteStep } from './step-results.ts'

/**
 * A `ToolLoopAgent` that is a sample of the rollout it is made in, once it asked the policy. Its `id`
 * is the sample id. Make it inside `AgentWorkflow.run()`; with a model that has a `fallback` it
 * may also be made outside, and then is a sample of every rollout it is used in.
 *
 * System messages are allowed in its prompt, because rows of a dataset have them there. With any
 * other model than a {@link rolloutModel} it is a `ToolLoopAgent`.
 */
export class OsmosisToolLoopAgent<
  CALL_OPTIONS = never,
  // As in the SDK: no tools are an empty set of them.
  TOOLS extends ToolSet = {},
  RUNTIME_CONTEXT extends Record<string, unknown> = Record<string, unknown>,
  OUTPUT extends Output.Output = never,
> extends sdk.ToolLoopAgent<CALL_OPTIONS, TOOLS, RUNTIME_CONTEXT, OUTPUT> {
  /**
   * @throws OsmosisError with code `duplicate_sample` when the rollout has a sample of this id,
   * `invalid_id`, or `no_rollout_context` when there is no active rollout and no `fallback`
   */
  constructor(settings: ToolLoopAgentSettings<CALL_OPTIONS, TOOLS, RUNTIME_CONTEXT, OUTPUT>) {
    super(bound(settings))
  }
}

function bound<
  CALL_OPTIONS,
  TOOLS extends ToolSet,
  RUNTIME_CONTEXT extends Record<string, unknown>,
  OUTPUT extends Output.Output,
>(
  settings: ToolLoopAgentSettings<CALL_OPTIONS, TOOLS, RUNTIME_CONTEXT, OUTPUT>,
): ToolLoopAgentSettings<CALL_OPTIONS, TOOLS, RUNTIME_CONTEXT, OUTPUT> {
  const { model, onStepEnd = settings.onStepFinish } = settings
  if (!isRolloutModel(model)) return settings
  const id = settings.id ?? model.name
  const rollout = getRolloutContext()
  if (rollout) newRecord(rollout, id)
  else if (model.settings.fallback === undefined) throw outsideOfRollout()
  return {
    ...settings,
    id,
    model: newRolloutModel({ ...model.settings, name: id }),
    allowSystemInMessages: settings.allowSystemInMessages ?? true,
    onStepEnd: async (step) => {
      noteStep(step)
      await onStepEnd?.(step)
    },
  }
}

function outsideOfRollout(): OsmosisError {
  return new OsmosisError(
    'no_rollout_context',
    'An OsmosisToolLoopAgent with a rolloutModel() needs an active rollout: construct it inside AgentWorkflow.run(), or give the model another one for outside: rolloutModel({ fallback: … }).',
  )
}
