import { definePolicyFaults, type PolicyFault, type RolloutContext } from '@osmosis/core'
import { sharedByCopies } from '@osmosis/core/workflow'
import { MaxTokensError, StructuredOutputError } from '@strands-agents/sdk'

const thrown = sharedByCopies('strands.policy-errors', () => new WeakMap<Error, RolloutContext>())

/** Notes what a run of an agent of the policy threw. An agent with another model throws the same classes. */
export function noteError(error: unknown, rollout: RolloutContext): void {
  if (error instanceof Error) thrown.set(error, rollout)
}

definePolicyFaults((error: Error, rollout: RolloutContext): PolicyFault | undefined => {
  if (thrown.get(error) !== rollout) return undefined
  if (error instanceof MaxTokensError) return { limit: 'max_tokens' }
  return error instanceof StructuredOutputError ? { error: 'output' } : undefined
})
