import { causes } from '../errors.ts'

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

// On globalThis, so that two installed copies of this package share what adapters know.
const tableKey = Symbol.for('osmosis.policy-faults')
const holder = globalThis as { [tableKey]?: Map<string, PolicyFault> }
const faults = (holder[tableKey] ??= new Map<string, PolicyFault>())

/**
 * Tells backends which errors of a framework are faults of the policy. For adapters, when they are loaded.
 *
 * @param table - by what identifies an error: its class or `name`, its `code`, `id` or `lc_error_code`, or its
 * message with `N` for numbers
 */
export function definePolicyFaults(table: Readonly<Record<string, PolicyFault>>): void {
  for (const [key, fault] of Object.entries(table)) faults.set(key, fault)
}

/** The fault of the policy that an error, or what caused it, reports; undefined for an error of code or machines. */
export function policyFaultIn(error: unknown): PolicyFault | undefined {
  try {
    for (const key of causes(error).flatMap(identitiesOf)) {
      const fault = faults.get(key)
      if (fault !== undefined) return fault
    }
  } catch {
    // Getters and proxies of user code may throw.
  }
  return undefined
}

function identitiesOf(error: Error): string[] {
  const { code, id, lc_error_code } = error as {
    code?: unknown
    id?: unknown
    lc_error_code?: unknown
  }
  const message = error.message.slice(0, 200).replaceAll(/\d+/g, 'N')
  const keys = [error.name, code, id, lc_error_code, message].filter(
    (key) => typeof key === 'string',
  )
  // Classes, because not every framework sets names.
  let prototype: unknown = Object.getPrototypeOf(error)
  while (prototype instanceof Error) {
    keys.push(prototype.constructor.name)
    prototype = Object.getPrototypeOf(prototype)
  }
  return keys
}
