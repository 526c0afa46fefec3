import { isJsonObject, textOf, type JsonObject } from './json-object.ts'
import { PlatformError, type PlatformErrorCode } from './platform-error.ts'

const codes: Readonly<Record<number, PlatformErrorCode>> = {
  400: 'VALIDATION',
  401: 'AUTH_REQUIRED',
  404: 'NOT_FOUND',
  409: 'CONFLICT',
  426: 'UPGRADE_REQUIRED',
  429: 'RATE_LIMITED',
}

const howToLogIn =
  'Log in again: osmosis auth login. Where OSMOSIS_TOKEN is set, that is the login: set a valid one, or unset it.'

/** What stays of an answer that is not JSON. */
const longestText = 200

/** An answer that refuses, as the error that it means. */
export function toAnswerError(status: number, text: string): PlatformError {
  const { error, message, code, ...body } = parseBody(text)
  const platformCode = textOf(code)
  const said = textOf(message) ?? textOf(error) ?? text.trim().slice(0, longestText)
  const why = said || `The platform answered ${status}.`
  return new PlatformError(
    errorCode(status, platformCode),
    status === 401 ? `${why}\n${howToLogIn}` : why,
    {
      status,
      details: {
        ...(platformCode !== undefined && { platform_code: platformCode }),
        ...body,
        status_code: status,
      },
    },
  )
}

function errorCode(status: number, platformCode: string | undefined): PlatformErrorCode {
  if (status === 403) {
    if (platformCode === 'SUBSCRIPTION_REQUIRED') return platformCode
    if (platformCode === 'BILLING_REQUIRED') return platformCode
  }
  return codes[status] ?? 'PLATFORM_ERROR'
}

function parseBody(text: string): JsonObject {
  try {
    const json: unknown = JSON.parse(text)
    return isJsonObject(json) ? json : {}
  } catch {
    return {}
  }
}
