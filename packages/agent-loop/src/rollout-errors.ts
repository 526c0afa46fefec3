import { OsmosisError, type OsmosisErrorCode } from '@osmosis/core'

/** Options of the rollout errors. */
export interface RolloutErrorOptions {
  cause?: unknown
  status?: number | undefined
  retryAfterMs?: number | undefined
}

/** A failed model call of an agent loop; the subclasses describe the failure. */
export class OsmosisRolloutError extends OsmosisError {
  override readonly name: string = 'OsmosisRolloutError'

  constructor(code: OsmosisErrorCode, message: string, options: RolloutErrorOptions = {}) {
    const { status, ...others } = options
    super(code, message, { ...others, ...(status === undefined ? {} : { status }) })
  }
}

/** There was no complete answer: the connection was refused, reset or closed. Code `policy_unreachable`. */
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
 * The request or its answer violates the protocol: another error status (`policy_http_error`, with
 * `status`), an answer without a message, beyond 64 MiB or not in UTF-8 (`policy_stream_error`), messages or
 * parameters that cannot be sent (`invalid_request`), or a trainer that the server may not connect to
 * (`egress_refused`).
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
