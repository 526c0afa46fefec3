import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { isPassingStatus } from '@osmosis/core/http'
import { SecretValues } from '@osmosis/server/protocols'
import { z } from 'zod'

/** What the platform says of a server that it has registered. */
export interface Registration {
  /** Id of the registration; null when the platform gave none. */
  readonly id: string | null
  /** `healthy`, or another word of the platform; `unknown` when it said none. */
  readonly status: string
  /** Why the platform's health check of the server failed; null when it is healthy. */
  readonly error: string | null
}

// The server is registered whatever else the answer says, so the answer only has to be an object.
const answerSchema = z.object({
  id: z.union([z.string(), z.number()]).nullish().catch(null),
  status: z.string().min(1).nullish().catch(null),
  health_check_result: z
    .object({ error: z.string().min(1).nullish().catch(null) })
    .nullish()
    .catch(null),
})

/**
 * Reads the answer to a registration.
 *
 * @throws OsmosisError with code `protocol_error` when it is not a JSON object
 */
export function readRegistration(text: string, url: string, words: PlatformWords): Registration {
  const answer = answerSchema.safeParse(parseJson(text))
  if (!answer.success) {
    throw new OsmosisError(
      'protocol_error',
      `The platform ${url} should answer a registration with a JSON object, got: ${words.quote(text.slice(0, 200)) || 'nothing'}`,
    )
  }
  const { id, status, health_check_result: check } = answer.data
  return {
    id: id === null || id === undefined ? null : words.quote(String(id)),
    status: words.quote(status ?? 'unknown'),
    error: status === 'healthy' ? null : words.quote(check?.error ?? 'Health check failed'),
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

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
  return isPassingStatus(status)
}

function hint(status: number): string {
  if (status === 401) return 'The login token is wrong or has expired: log in again.'
  if (status === 403) return 'The owner of the login token may not register servers there.'
  if (status === 404) return 'Check platformUrl (OSMOSIS_PLATFORM_URL).'
  if (status < 400) return 'Redirects are not followed: platformUrl has to be the final address.'
  return ''
}

/** Longer than any sentence, shorter than a page. */
const longest = 1000
/** Less than this of a key tells nothing. */
const shortestPiece = 6

/**
 * What the platform says, made fit to be shown: it may repeat the token and the key that it was
 * sent, and anything else.
 */
export class PlatformWords {
  readonly #secrets: readonly string[]
  readonly #values = new SecretValues()

  constructor(...secrets: readonly (string | undefined)[]) {
    this.#secrets = secrets.filter((secret) => secret !== undefined)
    this.#values.add(...secrets)
  }

  /** `text` on one line, without the secrets in it. */
  quote(text: string): string {
    const whole = this.#values.redact(text)
    const line = this.#withoutCutSecret(whole).replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ')
    return line.trim().slice(0, longest)
  }

  /** A long answer arrives cut off, and the cut may go through a secret. */
  #withoutCutSecret(text: string): string {
    for (const secret of this.#secrets) {
      for (let length = secret.length - 1; length >= shortestPiece; length -= 1) {
        if (text.endsWith(secret.slice(0, length))) return `${text.slice(0, -length)}[redacted]`
      }
    }
    return text
  }
}
