import * as sdk from '@openai/agents'
import type { PolicyFault, RolloutContext } from '@osmosis/core'
import { sharedByCopies } from '@osmosis/core/workflow'

import { commonJsTwin, type CommonJsTwin } from './sdk-copies.ts'

/** The answers of a policy in a run. */
export interface RunAnswers {
  /** Undefined before there is one. */
  rollout: RolloutContext | undefined
  /** Ids of the SDK's responses. */
  readonly ids: Set<string>
}

const errors = sharedByCopies('openai-agents.run-errors', () => new WeakMap<Error, RunAnswers>())

/** Notes what a run threw, with the answers that the policy had given in it. */
export function noteRunError(error: unknown, answers: RunAnswers): void {
  if (error instanceof Error) errors.set(error, answers)
}

/**
 * By the names of the SDK's classes, which its versions do not all have. Subclasses come before their classes.
 * Guardrails on input judge the row, and those on the output of a tool judge the tool.
 */
const faults: readonly (readonly [string, PolicyFault])[] = [
  ['MaxTurnsExceededError', { limit: 'max_turns' }],
  ['ModelRefusalError', { error: 'refusal' }],
  ['InvalidToolInputError', { error: 'tool_call' }],
  ['ModelBehaviorError', { error: 'output' }],
  ['OutputGuardrailTripwireTriggered', { error: 'output' }],
  ['ToolInputGuardrailTripwireTriggered', { error: 'tool_call' }],
]

/**
 * The fault that an error of the SDK reports, if the run that threw it had its last response from the policy. The run
 * of another model, such as a judge, throws the same classes.
 */
export function sdkFault(error: Error, rollout: RolloutContext): PolicyFault | undefined {
  const answers = errors.get(error)
  if (answers?.rollout !== rollout) return undefined
  const last = lastResponseId(error)
  if (last !== undefined && !answers.ids.has(last)) return undefined
  const inner = (error as { error?: unknown }).error
  // What a guardrail of a tool throws comes wrapped. What a tool threw is not the policy's, nor is that of a run in it.
  if (isOfSdk(error, 'ToolCallError') && inner instanceof Error && !errors.has(inner)) {
    return isOfSdk(inner, 'ToolInputGuardrailTripwireTriggered')
      ? { error: 'tool_call' }
      : undefined
  }
  return faults.find(([name]) => isOfSdk(error, name))?.[1]
}

/** Undefined where the error does not have the state of its run: not all errors do. */
function lastResponseId(error: Error): string | undefined {
  const { state } = error as {
    state?: { readonly _modelResponses?: readonly { readonly responseId?: string }[] }
  }
  // oxlint-disable-next-line no-underscore-dangle -- the SDK has no other name for it
  return state?._modelResponses?.at(-1)?.responseId
}

/** The classes as they are imported here, read by names: bundlers keep all of a namespace that is used as a value. */
const imported: CommonJsTwin = {
  MaxTurnsExceededError: sdk.MaxTurnsExceededError,
  ModelRefusalError: sdk.ModelRefusalError,
  // Older versions lack it.
  InvalidToolInputError: (sdk as { InvalidToolInputError?: unknown }).InvalidToolInputError,
  ModelBehaviorError: sdk.ModelBehaviorError,
  OutputGuardrailTripwireTriggered: sdk.OutputGuardrailTripwireTriggered,
  ToolInputGuardrailTripwireTriggered: sdk.ToolInputGuardrailTripwireTriggered,
  ToolCallError: sdk.ToolCallError,
}

/** Whether an error is of a class of the SDK, as it is imported here or as CommonJS code has it. */
function isOfSdk(error: Error, name: string): boolean {
  return [imported, commonJsTwin()].some((copy) => {
    const known = copy?.[name]
    return typeof known === 'function' && error instanceof known
  })
}
