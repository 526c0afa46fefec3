import { OsmosisError, type BaseConfig } from '@osmosis/core'
import { configuredSlots } from '@osmosis/core/workflow'

import type { ConcurrencyLimiter } from './concurrency-limiter.ts'

const defaultMaxConcurrent = 4

/** Maximum numbers of concurrent workflows and graders; null is unlimited. */
export interface ConcurrencyLimits {
  readonly workflows: number | null
  readonly graders: number | null
}

/**
 * The concurrency limits of an entrypoint.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function concurrencyLimits(options: {
  workflowConfig?: unknown
  graderConfig?: unknown
  maxConcurrent?: number | undefined
}): ConcurrencyLimits {
  const { workflowConfig, graderConfig, maxConcurrent } = options
  const workflows = slotsOf(workflowConfig)
  const left = `the limit of the workflow's config, or for ${defaultMaxConcurrent} without a config`
  return {
    workflows:
      maxConcurrent === undefined ? workflows : wholeNumber('maxConcurrent', maxConcurrent, left),
    graders: graderConfig === undefined ? null : slotsOf(graderConfig),
  }
}

/**
 * How many rollouts may wait; undefined is unlimited.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function queueDepth({
  maxQueueDepth,
}: {
  maxQueueDepth?: number | undefined
}): number | undefined {
  return maxQueueDepth === undefined
    ? undefined
    : wholeNumber('maxQueueDepth', maxQueueDepth, 'no limit')
}

/** Whether one more may run or wait. `maxQueueDepth` limits how many wait; undefined is unlimited. */
export function hasRoom(
  { maxConcurrent, running, queued }: ConcurrencyLimiter,
  maxQueueDepth: number | undefined,
): boolean {
  if (maxQueueDepth === undefined || maxConcurrent === null) return true
  return running < maxConcurrent || queued < maxQueueDepth
}

/** @param left - what leaving the option out means */
function wholeNumber(name: string, value: number, left: string): number {
  if (Number.isInteger(value) && value >= 1) return value
  throw new OsmosisError(
    'invalid_config',
    `${name} must be a whole number of at least 1, got ${String(value)}. Leave it out for ${left}.`,
  )
}

/** Null is unlimited. Without a config the default. */
function slotsOf(config: unknown): number | null {
  return config === undefined ? defaultMaxConcurrent : configuredSlots(config as BaseConfig)
}
