import { OsmosisError } from '../../../errors.ts'

/** The error of an answer that cannot be used. */
export function brokenAnswer(message: string, cause?: unknown): OsmosisError {
  return new OsmosisError('policy_stream_error', message, cause === undefined ? {} : { cause })
}

/** The error of an answer beyond one of its limits. */
export function beyondLimit(sent: string, limit: string): OsmosisError {
  return brokenAnswer(
    `The policy sent ${sent}. policyLimits.${limit} in the workflow's config sets this limit.`,
  )
}

/** The beginning of what the policy sent. */
export function quoted(sent: unknown): string {
  return (typeof sent === 'string' ? sent : (JSON.stringify(sent) ?? String(sent))).slice(0, 200)
}
