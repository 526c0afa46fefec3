import { OsmosisError, type OsmosisErrorCode } from '@osmosis/core'

/** What a rollout error is made with besides its message. */
export interface RolloutErrorOptions {
  cause?: unknown
  status?: number | undefined
  retryAfterMs?: number | undefined
}

/** What a model call of an agent loop may fail with; the subclasses say how. */
export class OsmosisRolloutError extends OsmosisError {
  override readonly name: string = 'OsmosisRolloutError'

  constructor(code: OsmosisErrorCode, message: string, options: RolloutErrorOptions = {}) {
    const { status, ...others } = options
    super(code, message, { ...others, ...(status === undefined ? {} : { status }) })
  }
}

/** There was no answer: refused, reset, broken off. Code `policy_unreachable`. */
export class OsmosisTransportError extends OsmosisRolloutError {
  override readonly name = 'OsmosisTransportError'

  constructor(message: string, options?: RolloutErrorOptions) {
    super('policy_unreachable', message, options)
  }
}

/** The trainer answered with `status` 500 or above. Code `policy_http_error`. */
export class OsmosisServerError extends OsmosisRolloutError {
  override readonly name = 'OsmosisServerError'

  constructor(message: string, options?: RolloutErrorOptions) {
    super('policy_http_error', message, options)
  }
}

/**
 * The request or its answer is not what the protocol asks for: another error status
 * (`policy_http_error`, with `status`), an answer without a message (`policy_stream_error`),
 * parameters that cannot be sent (`invalid_request`), or a trainer that the server may not connect
 * to (`egress_refused`).
 */
export class OsmosisValidationError extends OsmosisRolloutError {
  override readonly name = 'OsmosisValidationError'
}

/** An answer took longer than `timeoutSeconds` of the client settings. Code `timeout`. */
export class OsmosisTimeoutError extends OsmosisRolloutError {
  override readonly name = 'OsmosisTimeoutError'

  constructor(message: string, options?: RolloutErrorOptions) {
    super('timeout', message, options)
  }
}
