import { causes } from '../errors.ts'
import type { RolloutContext } from '../rollout-context.ts'
import { sharedByCopies } from '../shared-by-copies.ts'

/**
 * What the policy did wrong when a framework gave up on it. The rollout is graded with the samples so far, because a
 * policy that is never punished for a mistake repeats it.
 */
export type PolicyFault =
  /** It reached a limit of the framework, such as `max_turns`. */
  | { readonly limit: string }
  /**
   * It gave an answer that the framework cannot use: a `refusal`, an `output` of a wrong form, or a `tool_call` that
   * cannot be made.
   */
  | { readonly error: 'refusal' | 'output' | 'tool_call' }

/**
 * Says which fault of the policy an error of a framework reports. The name of its class is not enough: a model of
 * another provider, a judge with a limit of its own, or a parser over a file throws the same classes. A rule shows
 * that the error comes from an answer of the policy in this rollout, by the model that gave it, its id or its text,
 * and gives undefined where it cannot.
 */
export type PolicyFaultRule = (error: Error, rollout: RolloutContext) => PolicyFault | undefined

const rules = sharedByCopies('policy-fault-rules', () => new Set<PolicyFaultRule>())

/** Tells backends which errors of a framework are faults of the policy. For adapters, when they are loaded. */
export function definePolicyFaults(rule: PolicyFaultRule): void {
  rules.add(rule)
}

/**
 * The fault of the policy that an error of a rollout, or what caused it, reports; undefined for an error of code, of
 * machines or of another model.
 */
export function policyFaultIn(error: unknown, rollout: RolloutContext): PolicyFault | undefined {
  for (const cause of causes(error)) {
    for (const rule of rules) {
      const fault = faultBy(rule, cause, rollout)
      if (fault !== undefined) return fault
    }
  }
  return undefined
}

function faultBy(
  rule: PolicyFaultRule,
  error: Error,
  rollout: RolloutContext,
): PolicyFault | undefined {
  try {
    return rule(error, rollout)
  } catch {
    // Getters and proxies of user code may throw.
    return undefined
  }
}
