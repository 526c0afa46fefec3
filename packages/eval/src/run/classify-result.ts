import type { ResultSample, RolloutOutcome } from '@osmosis/controller'

import type { ItemOutcome } from './item-runner.ts'

/** What the end of a rollout means for its item. */
export type Classification = Pick<ItemOutcome, 'status' | 'reward' | 'errorType' | 'errorMessage'>

/**
 * Sorts the end of a rollout. An infrastructure failure has no reward, never a reward of 0; a
 * reward that came with a failure is kept. With `needsReward` a rollout without a reward has failed;
 * without, a failed grader is no failure, because eval functions score the samples.
 *
 * | end | status | error type |
 * |---|---|---|
 * | no terminal callback in time | failed | `callback_timeout` |
 * | cancelled at the server | failed | `cancelled` |
 * | failed, lost with what ran it | failed | `worker_lost`, `server_shutdown`, `queue_unavailable` |
 * | failed, workflow at fault | failed | the server's category, or `workflow_failed` |
 * | failed, grader at fault | failed | the server's category, or `grader_failed` |
 * | the same, but with samples that need no reward | as below | |
 * | success without samples | failed | `missing_grader_callback` |
 * | every sample removed | skipped | |
 * | a kept sample without a reward that it needs | failed | `missing_reward` |
 * | anything else | success | |
 */
export function classifyResult(result: RolloutOutcome, needsReward: boolean): Classification {
  const samples = [...result.samples.values()]
  const kept = samples.filter(({ removeSample }) => !removeSample)
  const reward = meanReward(kept)
  switch (result.status) {
    case 'timeout':
      return failed('callback_timeout', result.errorMessage ?? 'no terminal callback in time', null)
    case 'cancelled':
      return failed('cancelled', result.errorMessage ?? 'the rollout was cancelled', reward)
    case 'failure': {
      const fault = result.completion?.status === 'failure' ? 'workflow' : 'grader'
      if (fault === 'grader' && !needsReward && samples.length > 0) break
      const message = result.errorMessage ?? `the ${fault} failed and the server did not say why`
      const type = result.lostWith ?? result.errorCategory ?? `${fault}_failed`
      return failed(type, message, reward)
    }
    case 'success':
      break
  }
  if (samples.length === 0) {
    return failed('missing_grader_callback', 'the rollout ended without graded samples', null)
  }
  if (kept.length === 0) {
    return { status: 'skipped', reward: null, errorType: null, errorMessage: null }
  }
  if (reward === null && needsReward) {
    const unrewarded = kept.filter((sample) => sample.reward === null).map(({ id }) => `"${id}"`)
    return failed('missing_reward', `no reward for sample ${unrewarded.join(', ')}`, null)
  }
  return { status: 'success', reward, errorType: null, errorMessage: null }
}

function failed(errorType: string, errorMessage: string, reward: number | null): Classification {
  return { status: 'failed', reward, errorType, errorMessage }
}

/** Null rather than a mean over some: an absent reward is not a reward. */
function meanReward(samples: readonly ResultSample[]): number | null {
  const rewards = samples.flatMap(({ reward }) => reward ?? [])
  if (rewards.length === 0 || rewards.length < samples.length) return null
  return rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
}
