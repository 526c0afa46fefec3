import { OsmosisError } from '../../errors.ts'
import { awayPatienceMs } from '../../http/retry.ts'

/**
 * Limits on how long a model call waits for the policy, and on its answer. A call whose answer exceeds one fails with code
 * `policy_stream_error`.
 */
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
  /**
   * How long a call waits for a policy that is away: it refuses connections or ends them before it answers, as while it
   * restarts, or says with 503 that it loads its model. After that the call fails as after any other failure: 2 retries, then
   * `policy_unreachable` or `policy_http_error`. Seconds; default 90. With 0 it does not wait. The deadline of the rollout counts as
   * well.
   */
  readonly awaySeconds?: number
}

export const defaultPolicyLimits: Required<PolicyLimits> = {
  silenceSeconds: 600,
  maxLineBytes: 32 * 1024 * 1024,
  maxAnswerBytes: 64 * 1024 * 1024,
  awaySeconds: awayPatienceMs / 1000,
}

/**
 * The limits with their defaults.
 *
 * @param of - the owner of the limits, for error messages
 * @throws OsmosisError with code `invalid_config`
 */
export function policyLimits(of: string, limits: PolicyLimits = {}): Required<PolicyLimits> {
  const all: Record<string, number> = { ...defaultPolicyLimits }
  for (const [name, value] of Object.entries(limits) as [string, number | undefined][]) {
    if (all[name] === undefined) {
      const known = Object.keys(defaultPolicyLimits).join(', ')
      throw new OsmosisError(
        'invalid_config',
        `policyLimits of ${of} has an unknown key ${JSON.stringify(name)}: it takes ${known}.`,
      )
    }
    if (value === undefined) continue
    const wanted = name === 'awaySeconds' ? 'at least 0' : 'a number above 0'
    if (typeof value !== 'number' || !(value > 0 || (value === 0 && name === 'awaySeconds'))) {
      throw new OsmosisError(
        'invalid_config',
        `policyLimits.${name} of ${of} must be ${wanted}, got ${String(value)}.`,
      )
    }
    all[name] = value
  }
  return all as unknown as Required<PolicyLimits>
}
