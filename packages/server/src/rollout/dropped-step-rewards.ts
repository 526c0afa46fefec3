import type { RolloutSample } from '@osmosis/core'

import type { Logger } from '../logging/logger.ts'

/** What the log says when step rewards go no further. */
export const stepRewardsDropped =
  'the grader sets step rewards, which are dropped on the way to this trainer: it trains all model calls of a sample with the one reward of the sample'

const warned = new WeakSet<Logger>()

/**
 * Warns of step rewards that whoever gets the result does not take. Once for each log: a grader that sets
 * them does so in every rollout.
 */
export function warnOfStepRewards(
  rolloutId: string,
  samples: Iterable<Pick<RolloutSample, 'stepRewards'>>,
  logger: Logger,
): void {
  if (warned.has(logger)) return
  for (const { stepRewards } of samples) {
    if (stepRewards === null) continue
    warned.add(logger)
    logger.warn({ rollout_id: rolloutId }, stepRewardsDropped)
    return
  }
}
