import { AsyncLocalStorage } from 'node:async_hooks'

import { getRolloutContext, type RolloutContext } from '@osmosis/core'
import { traceOf } from '@osmosis/core/tracing'
import type { Telemetry } from 'ai'

import { registerTelemetry } from './supported-sdk.ts'

interface TracedCalls {
  /** The id of the SDK's call that a model is asked in. */
  readonly current: AsyncLocalStorage<string>
  /** The samples that calls of the SDK belong to, by the ids of the calls. */
  readonly samples: WeakMap<RolloutContext, Map<string, string>>
}

// On globalThis: every copy of this package would hear of the same tools.
const callsKey = Symbol.for('osmosis.ai-sdk.traced-calls')
const holder = globalThis as { [callsKey]?: TracedCalls }

/**
 * Makes the SDK tell of the tools it runs, once somebody wants traces: until then a call has nothing to
 * do with it. The same calls are left out as by `watchSteps`.
 */
export function watchTools(rollout: RolloutContext | undefined): void {
  if (holder[callsKey] !== undefined || traceOf(rollout) === undefined) return
  const calls = { current: new AsyncLocalStorage<string>(), samples: new WeakMap() }
  holder[callsKey] = calls
  registerTelemetry(spansOfTools(calls))
}

/** Notes which sample the call of the SDK belongs to that this code runs in. */
export function noteSample(rollout: RolloutContext, sampleId: string): void {
  const { current, samples } = holder[callsKey] ?? {}
  const callId = current?.getStore()
  if (callId === undefined) return
  const known = samples?.get(rollout)
  if (known === undefined) samples?.set(rollout, new Map([[callId, sampleId]]))
  else known.set(callId, sampleId)
}

function spansOfTools({ current, samples }: TracedCalls): Telemetry {
  return {
    executeLanguageModelCall: ({ callId, execute }) => current.run(callId, execute),
    async executeTool({ callId, toolCallId: id, toolCall, execute }) {
      const rollout = getRolloutContext()
      const sampleId = rollout && samples.get(rollout)?.get(callId)
      const name = toolCall?.toolName ?? 'unknown'
      const tool = traceOf(rollout)?.tool(sampleId, { name, id })
      if (tool === undefined) return execute()
      try {
        const result = await tool.run(execute)
        tool.end()
        return result
      } catch (error) {
        tool.fail(error)
        throw error
      }
    },
  }
}
