import { isOsmosisError, OsmosisError } from '../errors.ts'
import { shownUrl } from '../http/error-text.ts'
import type { EndpointNames, HttpRequest } from '../http/exchange.ts'
import { isAboutKey, isAboutModel, type RefusedCall } from '../http/refused-call.ts'
import { isAway, isTransientStatus } from '../http/retry.ts'
import { transportsByEgress } from '../http/transport.ts'
import { wait } from '../http/waiting.ts'

const suffix = '/chat/completions'

/** The URL of chat completions below a base URL, which may already end in `/chat/completions`. Keeps a query string. */
export function completionsUrl(baseUrl: string | URL): URL {
  const url = new URL(baseUrl)
  const path = url.pathname.replace(/\/+$/, '')
  return withPath(url, path.endsWith(suffix) ? path : `${path}${suffix}`)
}

/** The inverse: without `/chat/completions`, and without slashes at the end of its path. */
export function completionsBaseUrl(url: string | URL): URL {
  const base = new URL(url)
  return withPath(base, base.pathname.replace(/(\/+chat\/completions)?\/*$/, ''))
}

/** Setting a part of a URL parses all of it again. */
function withPath(url: URL, path: string): URL {
  if (path !== url.pathname) url.pathname = path
  return url
}

/** Where the policy of a rollout is. */
export interface PolicyAddress {
  /** Without `/chat/completions` and without a slash at the end. */
  readonly baseUrl: string
  /** Where model calls go. Rollouts share the object: do not modify it. */
  readonly url: URL
}

/** What a program that makes a `RolloutContext`, or executes a rollout, calls the endpoint. */
const ownNames: EndpointNames = { url: 'chatCompletionsUrl', key: 'apiKey' }

let latest: (PolicyAddress & { readonly given: string }) | undefined

/**
 * The endpoint of a base URL, with `/chat/completions` or without. Rollouts of one run have the same one, so
 * the latest is cached.
 *
 * @param names - what its sender calls it
 * @throws OsmosisError with code `invalid_request` when it is not a plain http(s) URL
 */
export function policyEndpoint(given: string, names = ownNames): PolicyAddress {
  if (latest?.given === given) return latest
  const { href, search } = completionsBaseUrl(parseHttpUrl(given, names))
  // Of its path, and not of a key in its query.
  const baseUrl = search === '' ? href.replace(/\/$/, '') : href
  latest = { given, baseUrl, url: completionsUrl(baseUrl) }
  return latest
}

function parseHttpUrl(value: string, names: EndpointNames): URL {
  const url = URL.parse(value)
  if (url && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '') {
    return url
  }
  // A URL may hold credentials, so it is not quoted.
  const got = url === null ? `, got ${JSON.stringify(shownUrl(value))}` : ''
  throw new OsmosisError(
    'invalid_request',
    `${names.url} must be an http or https URL without credentials${got}.`,
  )
}

/** What to do about a refusal, in the words of whoever sent the rollout. */
function advise(refusal: RefusedCall, { headers, names = ownNames }: HttpRequest): string {
  if (isAboutKey(refusal)) {
    return headers['authorization'] === undefined
      ? `The rollout was sent without an API key (${names.key}).`
      : `Check the API key that the rollout was sent with (${names.key}).`
  }
  if (refusal.status !== 404 || isAboutModel(refusal)) return ''
  return `${names.url} is a base URL: "${suffix}" is appended to it.`
}

/** The connections of all policy calls of this process, by egress policy. */
export const policyTransport = transportsByEgress({
  name: 'policy endpoint',
  codes: { unreachable: 'policy_unreachable', refused: 'policy_http_error' },
  advise,
  isTransientStatus: isRetryableStatus,
})

/** Whether a model call may be retried after this status. */
export function isRetryableStatus(status: number): boolean {
  // In the OpenAI format 409 means a lock that is released soon.
  return status === 409 || isTransientStatus(status)
}

/** Longest pause between two requests. */
const maxPauseMs = 60_000
/** First and longest pause for `Retry-After: 0` and for a policy that is away; it doubles each time. */
const firstBackoffMs = 10
const maxBackoffMs = 1_000

/** The errors that paused the model calls of a rollout, one per waiting call. */
export type PausedCalls = OsmosisError[]

interface PauseOptions {
  readonly signal: AbortSignal
  readonly paused: PausedCalls
  readonly awaySeconds: number
}

/**
 * Waits as long as an error of the endpoint requests, for example while it updates its weights, and while it is away. Such a pause is
 * not a failure. It lasts at most a minute, and the signal ends it. Resolves with whether it waited.
 *
 * @param isTransient - whether the error is transient
 * @param options.awaySeconds - how long a call waits for an endpoint that is away
 */
export function pausesOf(
  isTransient: (error: unknown) => boolean,
  { signal, paused, awaySeconds }: PauseOptions,
): (error: unknown) => Promise<boolean> {
  let pauses = 0
  let awaySince: number | undefined
  return async (error) => {
    const requestedMs = pauseMs(error)
    if (requestedMs === 'away') awaySince ??= performance.now()
    const isLate =
      requestedMs === 'away' && performance.now() - (awaySince ?? 0) >= awaySeconds * 1000
    if (requestedMs === undefined || isLate || !isTransient(error)) {
      pauses = 0
      return false
    }
    const backoffMs = Math.min(firstBackoffMs * 2 ** pauses, maxBackoffMs)
    pauses += 1
    const reason = error as OsmosisError
    paused.push(reason)
    try {
      const ms = requestedMs === 'away' ? backoffMs : requestedMs || backoffMs
      await wait(Math.min(ms, maxPauseMs), signal)
    } finally {
      paused.splice(paused.indexOf(reason), 1)
    }
    return true
  }
}

/** The pause that an endpoint requests, in milliseconds, or that it is away; undefined for other errors. */
function pauseMs(error: unknown): number | 'away' | undefined {
  if (!isOsmosisError(error)) return undefined
  const { status, retryAfterMs, message, cause } = error
  if (error.code === 'policy_unreachable') {
    return isAway({ code: (cause as NodeJS.ErrnoException | undefined)?.code }) ? 'away' : undefined
  }
  if (error.code !== 'policy_http_error' || (status !== 429 && status !== 503)) return undefined
  return retryAfterMs ?? (isAway({ status, text: message }) ? 'away' : undefined)
}
