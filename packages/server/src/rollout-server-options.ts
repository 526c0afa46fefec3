import type { ExecutionBackend } from '@osmosis/core'

import type { CallbackRetryOptions } from './callback-delivery.ts'
import type { Logger } from './logger.ts'

/** Options of `createRolloutServer`. */
export interface RolloutServerOptions {
  /** Executes the rollouts; the caller made it, and the server shuts it down when it drains. */
  backend: ExecutionBackend
  /** Bearer that every route but `/health` asks for; default: none is asked for. */
  apiKey?: string | undefined
  /** Status of an accepted rollout: 202 (default), or 200 for older controllers. */
  admissionStatus?: 200 | 202 | undefined
  /** Largest request body. Bytes; default 64 MiB. */
  maxBodyBytes?: number | undefined
  /** How long and how often a callback is tried. */
  callbackRetry?: CallbackRetryOptions | undefined
  /**
   * Folder that keeps callbacks until they are acknowledged: what this process could not deliver,
   * whatever ended it, the next one with the same folder delivers. Holds the keys that callbacks
   * are sent with. Default: callbacks end with the process.
   */
  outboxDir?: string | undefined
  /** How long `drain` waits for running rollouts before it ends them. Seconds; default 30. */
  drainSeconds?: number | undefined
  /** How long the failure callbacks of ended rollouts may take. Seconds; default 10. */
  shutdownGraceSeconds?: number | undefined
  /** Told by `/health`, so that a controller notices a restart; default: not told. */
  instanceId?: string | undefined
  /** Where log lines go; default: JSON lines on stderr; false: nowhere. */
  logger?: Logger | false | undefined
}
