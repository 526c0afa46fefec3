import { bearer } from '../http/bearer.ts'

/** Who is calling: what every model request of a sample carries. */
export interface PolicyIdentity {
  readonly rolloutId: string
  readonly sampleId: string
  /** Bearer of the policy endpoint; no `authorization` header without one. */
  readonly apiKey: string | undefined
}

/**
 * Headers that nobody else may set. Without a key there must be no bearer at all, also none that a framework
 * made up.
 */
const ownNames = new Set(['content-type', 'accept', 'x-rollout-id', 'x-sample-id', 'authorization'])

/**
 * Headers of one model request. The identity wins: whatever a framework or a user passes,
 * the request still reaches the right sample with the right key.
 */
export function policyHeaders(
  identity: PolicyIdentity,
  extra: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    accept: 'text/event-stream, application/json',
    'x-rollout-id': identity.rolloutId,
    'x-sample-id': identity.sampleId,
  }
  const { authorization } = bearer(identity.apiKey)
  if (authorization !== undefined) headers['authorization'] = authorization
  for (const [name, value] of Object.entries(extra)) {
    const lowerCased = name.toLowerCase()
    if (!ownNames.has(lowerCased)) headers[lowerCased] = value
  }
  return headers
}
