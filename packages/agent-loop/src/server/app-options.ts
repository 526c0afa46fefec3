import { OsmosisError } from '@osmosis/core'
import type { Logger } from '@osmosis/server'
import { assertApiKey } from '@osmosis/server/parts'

import type { RolloutSettingsInput } from '../settings/rollout-settings.ts'

/** Options of `createApp`. */
export interface CreateAppOptions {
  /** Most rollouts running at the same time; others wait. Default: null, unlimited. */
  maxConcurrent?: number | null | undefined
  /** Most rollouts that may wait; more are answered 503. Default: null, any number. */
  maxQueued?: number | null | undefined
  /** How long an ended rollout is remembered. Seconds; default 3600. */
  recordTtlSeconds?: number | undefined
  /** Whatever is left out comes from the environment; see `resolveSettings`. */
  settings?: RolloutSettingsInput | undefined
  /** Folder for a trace of each rollout; it is made when needed. Default: no traces. */
  debugDir?: string | undefined
  /**
   * Folder that keeps results until they are acknowledged: what this process could not deliver,
   * whatever ended it, the next one with the same folder delivers. Holds the keys of trainers.
   * Default: results end with the process.
   */
  outboxDir?: string | undefined
  /** Awaited before the first rollout is taken; when it rejects, nothing is served. */
  onStartup?: (() => Promise<void> | void) | undefined
  /** Awaited when the last rollout is over and its result delivered. */
  onShutdown?: (() => Promise<void> | void) | undefined
  /** Key that trainers must present; default: none is asked for. */
  apiKey?: string | undefined
  /** Largest request body. Bytes; default 64 MiB. */
  maxBodyBytes?: number | undefined
  /** How long a drain waits for running rollouts before it ends them. Seconds; default 30. */
  drainSeconds?: number | undefined
  /** How long the results of ended rollouts may take to deliver. Seconds; default 10. */
  shutdownGraceSeconds?: number | undefined
  /** Where log lines go; default: JSON lines on stderr; false: nowhere. */
  logger?: Logger | false | undefined
}

/** @throws OsmosisError with code `invalid_config` for a key that nobody can present or a limit that is none */
export function assertAppOptions(options: CreateAppOptions): void {
  assertApiKey(options.apiKey)
  const { maxConcurrent, maxQueued, recordTtlSeconds } = options
  assertLimit('maxConcurrent', maxConcurrent, (value) => Number.isInteger(value) && value >= 1)
  assertLimit('maxQueued', maxQueued, (value) => Number.isInteger(value) && value >= 0)
  assertLimit('recordTtlSeconds', recordTtlSeconds, (value) => Number.isFinite(value) && value > 0)
  for (const name of ['maxBodyBytes', 'drainSeconds', 'shutdownGraceSeconds'] as const) {
    assertLimit(name, options[name], (value) => Number.isFinite(value) && value >= 0)
  }
}

function assertLimit(
  name: keyof CreateAppOptions,
  value: number | null | undefined,
  isGood: (value: number) => boolean,
): void {
  if (value === undefined || value === null || isGood(value)) return
  throw new OsmosisError('invalid_config', `${name} cannot be ${value}.`)
}
