import { OsmosisError } from '../../errors.ts'

/** Limits on an answer of the policy. A call whose answer exceeds one fails with code `policy_stream_error`. */
export interface PolicyLimits {
  /**
   * Longest time without a byte once the answer has started. Seconds; default 600. `Infinity`: only the
   * deadline of the rollout counts.
   */
  readonly silenceSeconds?: number
  /** The longest line of a streamed answer, and the longest JSON answer. Bytes; default 32 MiB. */
  readonly maxLineBytes?: number
  /** The longest answer as a whole, with token ids, logprobs and what keeps its stream alive. Bytes; default 64 MiB. */
  readonly maxAnswerBytes?: number
}

export const defaultPolicyLimits: Required<PolicyLimits> = {
  silenceSeconds: 600,
  maxLineBytes: 32 * 1024 * 1024,
  maxAnswerBytes: 64 * 1024 * 1024,
}

/**
 * The limits with their defaults.
 *
 * @param of - the owner of the limits, for error messages
 * @throws OsmosisError with code `invalid_config`
 */
export function policyLimits(of: string, limits: PolicyLimits | undefined): Required<PolicyLimits> {
  if (limits === undefined) return defaultPolicyLimits
  for (const [name, value] of Object.entries(limits)) {
    if (!(name in defaultPolicyLimits)) {
      throw new OsmosisError(
        'invalid_config',
        `policyLimits of ${of} has an unknown key ${JSON.stringify(name)}: it takes ${Object.keys(defaultPolicyLimits).join(', ')}.`,
      )
    }
    if (value !== undefined && !(typeof value === 'number' && value > 0)) {
      throw new OsmosisError(
        'invalid_config',
        `policyLimits.${name} of ${of} must be a number above 0, got ${String(value)}.`,
      )
    }
  }
  const given = Object.entries(limits).filter(([, value]) => value !== undefined)
  return { ...defaultPolicyLimits, ...Object.fromEntries(given) }
}
