import { OsmosisError, type OsmosisErrorCode } from '@osmosis/core'
import { isJsonObject, parseJson } from '@osmosis/core/http'

import { textOf } from './answers.ts'

/**
 * Code of an error of a platform command, as all command lines of Osmosis print it in `error.code`.
 */
export type PlatformErrorCode =
  // Answers of the platform, by HTTP status and the code in the body.
  | 'VALIDATION'
  | 'AUTH_REQUIRED'
  | 'NOT_FOUND'
  | 'CONFLICT'
  | 'UPGRADE_REQUIRED'
  | 'RATE_LIMITED'
  | 'SUBSCRIPTION_REQUIRED'
  | 'BILLING_REQUIRED'
  | 'PLATFORM_ERROR'
  // Errors that a command detects without a request.
  | 'INTERACTIVE_REQUIRED'
  | 'WORKSPACE_REQUIRED'
  | 'KEYRING_UNAVAILABLE'
  | 'CREDENTIALS_UNAVAILABLE'
  | 'CREDENTIALS_PARSE_FAILED'
  | 'CREDENTIALS_VERSION_CHANGED'
  | 'ENV_TOKEN_PLATFORM_REQUIRED'
  | 'ENV_TOKEN_PLATFORM_MISMATCH'

/** Details of an error; keys are those of `--json`. */
type ErrorDetails = Readonly<Record<string, unknown>>

const coreCodes: Partial<Record<PlatformErrorCode, OsmosisErrorCode>> = {
  AUTH_REQUIRED: 'unauthorized',
  PLATFORM_ERROR: 'protocol_error',
  RATE_LIMITED: 'protocol_error',
  UPGRADE_REQUIRED: 'protocol_error',
  VALIDATION: 'invalid_request',
}

/** An error of a platform command. `platformCode` is the code that `--json` prints. */
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

/** The error of a command for flags, variables, files and names that it cannot use. */
export function wrongUse(message: string): PlatformError {
  return new PlatformError('VALIDATION', message)
}

/** The error of an answer with status 200 that lacks what it should have. */
export function unexpectedAnswer(message: string): PlatformError {
  return new PlatformError('PLATFORM_ERROR', message, { status: 200 })
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
  'Log in again: osmosis platform login. Where OSMOSIS_TOKEN is set, that is the login: set a valid one, or unset it.'

/** How much of an answer that is not JSON an error quotes. Characters. */
const longestText = 200

/** The error for an answer with an error status. */
export function toAnswerError(status: number, text: string): PlatformError {
  const json = parseJson(text)
  const { error, message, code, ...body } = isJsonObject(json) ? json : {}
  const platformCode = textOf(code)
  const said = textOf(message) ?? textOf(error) ?? text.trim().slice(0, longestText)
  const why = said || `The platform answered ${status}.`
  return new PlatformError(
    errorCode(status, platformCode),
    status === 401 ? `${why}\n${howToLogIn}` : why,
    {
      status,
      details: {
        ...body,
        ...(platformCode !== undefined && { platform_code: platformCode }),
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
