import { type PatientPolicy, patientPolicy, type PatientPolicyOptions } from './patient-policy.ts'
import type { PolicyModel } from './policy-model.ts'
import { type ModelPrice, recordPolicy, type RecordedPolicy } from './record-policy.ts'
import { policyAnswers, watchPolicy } from './watch-policy.ts'

/** Options of {@link evaluatedPolicy}. */
export interface EvaluatedPolicyOptions extends Pick<PatientPolicyOptions, 'onWait'> {
  /** Advice on a failure that all later calls would have, see {@link watchPolicy}. Default: none. */
  readonly advise?: (status: number) => string
  /** Parameters of the calls, by their names on the wire; they replace those of the caller. Default: none. */
  readonly params?: Readonly<Record<string, unknown>>
  /** Whether `policy` may be asked something else than rollouts do, to find out whether it answers. Default: true. */
  readonly answersTests?: boolean
  /** Default: the price that answers have. */
  readonly price?: ModelPrice | undefined
}

/** A policy as an evaluation asks it. */
export interface EvaluatedPolicy {
  /** Answers the calls; `answers`, where it may be tested, as {@link policyAnswers} does. */
  readonly policy: PatientPolicy & { readonly answers?: (signal: AbortSignal) => Promise<boolean> }
  /** What was said. */
  readonly recorded: RecordedPolicy
}

/**
 * Stacks what an evaluation needs of a policy, from the inside: it is watched for failures that all later calls would
 * have, its parameters are replaced, its calls are recorded, and refused calls wait. The creator of `policy` closes it.
 */
export function evaluatedPolicy(
  policy: PolicyModel,
  { advise, params = {}, answersTests = true, price, onWait }: EvaluatedPolicyOptions = {},
): EvaluatedPolicy {
  const watched = watchPolicy(policy, { ...(advise && { advise }), isAwaited: true })
  const recorded = recordPolicy(withParams(watched, params), { price })
  // Outermost, so that it notices each refusal and the time of waiting does not count as slowness.
  const patient = patientPolicy(recorded, { watched, onWait })
  const answers = (signal: AbortSignal): Promise<boolean> => policyAnswers(policy, signal)
  return { policy: answersTests ? Object.assign(patient, { answers }) : patient, recorded }
}

function withParams(
  policy: PolicyModel,
  params: NonNullable<EvaluatedPolicyOptions['params']>,
): PolicyModel {
  if (Object.keys(params).length === 0) return policy
  return {
    name: policy.name,
    respond: (request) => policy.respond({ ...request, body: { ...request.body, ...params } }),
  }
}
