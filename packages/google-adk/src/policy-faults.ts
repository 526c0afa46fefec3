import type { PolicyFault, RolloutContext } from '@osmosis/core'
import { sharedByCopies } from '@osmosis/core/workflow'

/** Rollouts in which the ADK prepares a call of the policy that it has not made yet. */
const begun = sharedByCopies('google-adk.calls-begun', () => new WeakSet<RolloutContext>())

/** The ADK prepares a call of the policy. */
export function noteCallBegins(rollout: RolloutContext): void {
  begun.add(rollout)
}

/** The ADK makes the call. */
export function noteCall(rollout: RolloutContext): void {
  begun.delete(rollout)
}

/**
 * The fault that an error reports which says that the ADK's limit of calls was exceeded. The ADK makes a plain error
 * or an event of it, which a program throws again, so it is known by its words. It is the policy's when the call that
 * was one too many was one of the policy, and not one of another model, such as that of a judge.
 */
export function adkFault({ message }: Error, rollout: RolloutContext): PolicyFault | undefined {
  const isLimit = /\bMax number of llm calls limit of \d+ exceeded\b/i.test(message)
  return isLimit && begun.has(rollout) ? { limit: 'max_llm_calls' } : undefined
}
