import {
  OsmosisError,
  type AgentWorkflowOutput,
  type RolloutContext,
  toRolloutSample,
} from '@osmosis/core'

/** The id of a sample that was returned: whoever returns one has not named it. */
const returnedSampleId = 'sample'

/**
 * Makes what `run` returned the sample of the rollout, when it is a conversation: a list of chat
 * messages, or an object with `messages` and at most `metrics`. Anything else, such as what a
 * framework returns from a run, means nothing.
 *
 * @throws OsmosisError with code `duplicate_sample` when samples were registered as well; TypeError
 * for metrics that are not finite numbers
 */
export function registerReturned(
  context: RolloutContext,
  returned: unknown,
  label: string | null,
): void {
  const output = toOutput(returned)
  if (output === undefined) return
  const names = context.sampleSourceNames.map((name) => `"${name}"`)
  if (names.length > 0) {
    throw new OsmosisError(
      'duplicate_sample',
      `run() returned messages, and registered ${names.join(', ')} as well: a sample is either returned or registered. Agents and sessions of an adapter register themselves; return nothing then.`,
    )
  }
  const { messages, metrics = {} } = output
  for (const [name, value] of Object.entries(metrics)) {
    if (Number.isFinite(value)) continue
    throw new TypeError(`The metric "${name}" that run() returned must be a finite number.`)
  }
  context.registerSampleSource(returnedSampleId, {
    getSample: (id) => toRolloutSample({ id, messages, label, metrics }),
  })
}

function toOutput(returned: unknown): AgentWorkflowOutput | undefined {
  if (Array.isArray(returned)) {
    const messages = returned as unknown[]
    return messages.length > 0 && messages.every(isChatMessage) ? { messages } : undefined
  }
  return isOutput(returned) ? returned : undefined
}

function isChatMessage(value: unknown): boolean {
  return typeof (value as { role?: unknown } | null | undefined)?.role === 'string'
}

function isOutput(value: unknown): value is AgentWorkflowOutput {
  if (typeof value !== 'object' || value === null) return false
  if (Object.getPrototypeOf(value) !== Object.prototype) return false
  const { messages, metrics = {}, ...others } = value as Partial<AgentWorkflowOutput>
  const hasMetrics = typeof metrics === 'object' && metrics !== null && !Array.isArray(metrics)
  return Array.isArray(messages) && hasMetrics && Object.keys(others).length === 0
}
