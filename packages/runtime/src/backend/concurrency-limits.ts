import { OsmosisError, type BaseConfig } from '@osmosis/core'
import type { ConcurrencyLimiter } from './concurrency-limiter.ts'

const defaultMaxConcurrent = 4

/** How many may run at the same time; null is unlimited. */
export interface ConcurrencyLimits {
  readonly workflows: number | null
  readonly graders: number | null
}

/**
 * How many rollouts of an entrypoint may run, and be graded, at the same time.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function concurrencyLimits(options: {
  workflowConfig?: unknown
  graderConfig?: unknown
  maxConcurrent?: number | undefined
}): ConcurrencyLimits {
  const { workflowConfig, graderConfig, maxConcurrent } = options
  const configured = concurrencyOf(workflowConfig)
  return {
    workflows:
      maxConcurrent === undefined ? configured : wholeNumber('maxConcurrent', maxConcurrent),
    graders: graderConfig === undefined ? null : concurrencyOf(graderConfig),
  }
}

/** Whether one more may run or wait. `maxQueueDepth` is how many may wait; undefined is any number. */
export function hasRoom(
  { maxConcurrent, running, queued }: ConcurrencyLimiter,
  maxQueueDepth: number | undefined,
): boolean {
  if (maxQueueDepth === undefined || maxConcurrent === null) return true
  return running < maxConcurrent || queued < maxQueueDepth
}

/** @throws OsmosisError with code `invalid_config` */
export function wholeNumber(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 1) return value
  throw new OsmosisError(
    'invalid_config',
    `${name} must be a whole number of at least 1, got ${String(value)}. Leave it out for no limit.`,
  )
}

/** The slots a config asks for: null is unlimited; a default without any config. */
function concurrencyOf(config: unknown): number | null {
  if (config === undefined) return defaultMaxConcurrent
  const limit = (config as Partial<BaseConfig>).concurrency?.maxConcurrent
  return limit === undefined ? null : wholeNumber('concurrency.maxConcurrent', limit)
}
