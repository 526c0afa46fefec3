import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'

import type { PlatformWords } from './registration-words.ts'

/** A failed request to the platform, as an error that says what to do and holds no secret. */
export function toRegistrationError(
  error: unknown,
  url: string,
  words: PlatformWords,
): OsmosisError {
  if (!isOsmosisError(error)) {
    return new OsmosisError(
      'platform_unreachable',
      `The answer of the platform ${url} broke off: ${words.quote(errorMessage(error))}`,
      { cause: error },
    )
  }
  const { status, retryAfterMs } = error
  const message = words.quote(error.message)
  if (status === undefined) {
    return new OsmosisError('platform_unreachable', message, { cause: error.cause })
  }
  const code = status === 401 || status === 403 ? 'unauthorized' : 'protocol_error'
  const advice = hint(status)
  const sentence = advice === '' ? message : `${message.replace(/\.$/, '')}. ${advice}`
  return new OsmosisError(code, sentence, { status, retryAfterMs })
}

/** Whether the next try may fare better. */
export function isPassing(error: unknown): boolean {
  if (!isOsmosisError(error)) return false
  const { code, status = 0 } = error
  if (code === 'timeout' || code === 'platform_unreachable') return true
  return status === 408 || status === 425 || status === 429 || status >= 500
}

function hint(status: number): string {
  if (status === 401) return 'The login token is wrong or has expired: log in again.'
  if (status === 403) return 'The owner of the login token may not register servers there.'
  if (status === 404) return 'Check platformUrl (OSMOSIS_PLATFORM_URL).'
  if (status < 400) return 'Redirects are not followed: platformUrl has to be the final address.'
  return ''
}
