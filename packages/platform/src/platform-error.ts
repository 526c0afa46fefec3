import { OsmosisError, type OsmosisErrorCode } from '@osmosis/core'

import { isJsonObject, textOf, type JsonObject } from './answers.ts'

/**
 * What went wrong between a command and the platform, in the words that all command lines of
 * Osmosis print in `error.code`.
 */
export type PlatformErrorCode =
  // What the platform answered, by HTTP status and the code in the body.
  | 'VALIDATION'
  | 'AUTH_REQUIRED'
  | 'NOT_FOUND'
  | 'CONFLICT'
  | 'UPGRADE_REQUIRED'
  | 'RATE_LIMITED'
  | 'SUBSCRIPTION_REQUIRED'
  | 'BILLING_REQUIRED'
  | 'PLATFORM_ERROR'
  // What a command finds out without asking.
  | 'INTERACTIVE_REQUIRED'
  | 'WORKSPACE_REQUIRED'
  | 'KEYRING_UNAVAILABLE'
  | 'CREDENTIALS_UNAVAILABLE'
  | 'CREDENTIALS_PARSE_FAILED'
  | 'CREDENTIALS_VERSION_CHANGED'
  | 'ENV_TOKEN_PLATFORM_REQUIRED'
  | 'ENV_TOKEN_PLATFORM_MISMATCH'

/** What is known of an error beside its message; keys are those of `--json`. */
export type ErrorDetails = Readonly<Record<string, unknown>>

const coreCodes: Partial<Record<PlatformErrorCode, OsmosisErrorCode>> = {
  AUTH_REQUIRED: 'unauthorized',
  PLATFORM_ERROR: 'protocol_error',
  RATE_LIMITED: 'protocol_error',
  UPGRADE_REQUIRED: 'protocol_error',
  VALIDATION: 'invalid_request',
}

/** An error of a platform command. `platformCode` is the word that `--json` prints. */
export class PlatformError extends OsmosisError {
  override readonly name = 'PlatformError'
  readonly platformCode: PlatformErrorCode
  readonly details: ErrorDetails

  constructor(
    code: PlatformErrorCode,
    message: string,
    options: { details?: ErrorDetails; cause?: unknown; status?: number } = {},
  ) {
    const { details = {}, status } = options
    const isUnreachable = code === 'PLATFORM_ERROR' && status === undefined
    super(
      isUnreachable ? 'platform_unreachable' : (coreCodes[code] ?? 'invalid_config'),
      message,
      options,
    )
    this.platformCode = code
    this.details = details
  }
}

/** Whether the platform refused the workspace of a request rather than its sender. */
export function isScopeError(error: unknown): boolean {
  if (!(error instanceof PlatformError)) return false
  const { platform_code: code } = error.details
  return typeof code === 'string' && /^GIT_(SCOPE|REPOSITORY)_/.test(code)
}

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
