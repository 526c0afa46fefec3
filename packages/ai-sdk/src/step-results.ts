import { getRolloutContext } from '@osmosis/core'
import type { ModelMessage, registerTelemetry } from 'ai'

import { noteStepEnd } from './policy-faults.ts'
import { recordsOf } from './rollout-records.ts'
import { providerName } from './wire-conversion.ts'

/** The part of the SDK's `StepResult` that is looked at, in any of its versions. */
export interface FinishedStep {
  readonly providerMetadata?:
    | Readonly<Record<string, Readonly<Record<string, unknown>>>>
    | undefined
  readonly response: { readonly messages: readonly ModelMessage[] }
}

/**
 * Adds the tool results of a step to the call it came from. The policy sees them with the
 * next call; those of the last step, after a stop condition, reach no model.
 */
export function noteStep({ providerMetadata, response }: FinishedStep): void {
  const turnId = providerMetadata?.[providerName]?.['turnId']
  const context = getRolloutContext()
  if (turnId === undefined || context === undefined) return
  for (const record of recordsOf(context).values()) {
    record.callOfTurn(turnId)?.stepped(response.messages)
  }
}

// On globalThis: every copy of this package would hear of the same steps.
const watching = Symbol.for('osmosis.ai-sdk.watching-steps')
const holder = globalThis as { [watching]?: true }

/**
 * Makes the SDK report the steps of plain `generateText` and `streamText` calls, which have no
 * other place to listen at, and what tools throw. It does not when a call turns telemetry off, gives
 * integrations of its own, or sets `recordOutputs: false`.
 */
export function watchSteps(sdk: { readonly registerTelemetry: typeof registerTelemetry }): void {
  if (holder[watching]) return
  holder[watching] = true
  sdk.registerTelemetry({
    onStepEnd(step) {
      noteStep(step)
      const rollout = getRolloutContext()
      if (rollout === undefined) return
      const isOfPolicy = step.providerMetadata?.[providerName]?.['turnId'] !== undefined
      noteStepEnd(rollout, { isOfPolicy, finishReason: step.finishReason })
    },
    onToolExecutionEnd({ toolOutput }) {
      if (toolOutput?.type !== 'tool-error') return
      getRolloutContext()?.logToolError(toolOutput.toolName, toolOutput.error)
    },
  })
}
