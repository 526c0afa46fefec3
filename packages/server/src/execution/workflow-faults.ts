import {
  type BaseWorkflowConfig,
  causes,
  errorCategory,
  isOsmosisError,
  OsmosisError,
  policyFaultIn,
  type RolloutContext,
} from '@osmosis/core'
import { isFullContext } from '@osmosis/core/policy'
import { isOfPolicy, recordOf } from '@osmosis/core/workflow'

import { thrownBy } from '../containment/error-place.ts'

// Whose fault it is that a workflow did not run to its end: the policy's, which is graded, or another's, which is not.

/** How a workflow ended that did not run to its end, and is graded all the same. */
export interface EarlyEnd {
  /** A field for its samples, which says why. */
  readonly field: readonly [name: 'limit_reached' | 'model_error', reason: string]
  /** Whether its samples are removed from training. */
  readonly isRemoved: boolean
}

/** What ended a workflow early, from what was thrown; undefined for a failure. */
export function earlyEnd(
  error: unknown,
  about: {
    readonly context: RolloutContext
    readonly reached: string | undefined
    readonly settings: Partial<BaseWorkflowConfig>
    readonly isOfRun: boolean
  },
): EarlyEnd | undefined {
  const { context, reached, settings, isOfRun } = about
  if (reached !== undefined) {
    const isRemoved = settings.rolloutLimits?.whenReached === 'remove'
    return { field: ['limit_reached', reached], isRemoved }
  }
  if (!isOfRun || settings.policyFaults === 'fail') return undefined
  if (refusalOfFullContext(error, context) !== undefined) {
    const isRemoved = settings.rolloutLimits?.whenReached === 'remove'
    return { field: ['limit_reached', 'context'], isRemoved }
  }
  const fault = policyFaultIn(error, context)
  if (fault === undefined) return undefined
  const field =
    'limit' in fault
      ? (['limit_reached', fault.limit] as const)
      : (['model_error', fault.error] as const)
  return { field, isRemoved: false }
}

/**
 * What run() threw, or the failed model call of which it is the consequence: a program exits with a code, and code that
 * reads an answer finds none. Errors of the SDK, of HTTP and of time limits say themselves what failed.
 */
export function withFailedCall(thrown: unknown, context: RolloutContext): unknown {
  const category = errorCategory(thrown)
  const chain = causes(thrown)
  const isUnsaid = category === 'agent_error' || category === 'validation_error'
  if (!isUnsaid && !chain.some(isOfPolicy)) return thrown
  const failed = failedCallOf(context)
  if (failed === undefined || chain.some(isOsmosisError)) return thrown
  const { code, status, endpointMessage, endpointCode, endpointType } = failed
  const said = {
    endpointMessage,
    endpointCode,
    endpointType,
    ...(status === undefined ? {} : { status }),
  }
  const message = `${failed.message} Then ${thrownBy('run()', thrown)}`
  return new OsmosisError(code, message, { ...said, cause: thrown })
}

/**
 * The refusal of a call whose conversation has outgrown the context of the policy, if that is what ended run(). What made
 * the conversation long is what the policy did.
 */
function refusalOfFullContext(thrown: unknown, context: RolloutContext): OsmosisError | undefined {
  const record = recordOf(context)
  return [...causes(thrown), failedCallOf(context)]
    .filter(isOsmosisError)
    .find((refusal) => isFullContext(refusal) && record.isOfTrainedCall(refusal))
}

/** Undefined also where a sample source, which is code of the user, throws when it is asked. */
function failedCallOf(context: RolloutContext): OsmosisError | undefined {
  try {
    return recordOf(context).failedCall
  } catch {
    return undefined
  }
}

/** Nothing was said before the context was full. */
export function promptTooLong(thrown: unknown, context: RolloutContext): unknown {
  const refusal = refusalOfFullContext(thrown, context)
  if (refusal === undefined) return thrown
  const { code, status, message } = refusal
  return new OsmosisError(
    code,
    `The prompt alone does not fit into the context of the policy. Shorten it or the tools, or serve the model with a longer context. ${message}`,
    { cause: thrown, ...(status === undefined ? {} : { status }) },
  )
}
