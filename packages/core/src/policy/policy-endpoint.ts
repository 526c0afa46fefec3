import { OsmosisError } from '../errors.ts'
import { completionsBaseUrl, completionsUrl } from '../http/completions-url.ts'

/** Where the policy of a rollout is. */
export interface PolicyAddress {
  /** Without `/chat/completions` and without a slash at the end. */
  readonly baseUrl: string
  /** Where model calls go. Not to be changed: rollouts share it. */
  readonly url: URL
}

let latest: (PolicyAddress & { readonly given: string }) | undefined

/**
 * The endpoint below a base URL, with `/chat/completions` or without. Rollouts of one run have the same, so
 * the latest is remembered.
 *
 * @throws OsmosisError with code `invalid_request` when it is not a plain http(s) URL
 */
export function policyEndpoint(given: string): PolicyAddress {
  if (latest?.given === given) return latest
  const baseUrl = completionsBaseUrl(parseHttpUrl(given)).href.replace(/\/$/, '')
  latest = { given, baseUrl, url: completionsUrl(baseUrl) }
  return latest
}

function parseHttpUrl(value: string): URL {
  const url = URL.parse(value)
  if (
    url !== null &&
    (url.protocol === 'http:' || url.protocol === 'https:') &&
    url.username === '' &&
    url.password === ''
  ) {
    return url
  }
  // The value may hold credentials, so only what is wrong with it is said.
  throw new OsmosisError(
    'invalid_request',
    `chatCompletionsUrl must be an http or https URL without credentials${url ? '' : `, got ${JSON.stringify(value)}`}.`,
  )
}
