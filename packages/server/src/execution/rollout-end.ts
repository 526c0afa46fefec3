import { type ErrorCategory, OsmosisError, type RolloutSample } from '@osmosis/core'
import { assertReward } from '@osmosis/core/workflow'
import {
  cancellerOf,
  reportOf,
  type ExecutionBackend,
  type ModelCallGates,
  type RolloutEvent,
  type RolloutFailure,
  type RolloutReport,
  type RolloutRequest,
} from '@osmosis/protocol'

import { executeThrough, settled } from './rollout-stages.ts'
import { toFailure } from './workflow-phase.ts'

/** The one outcome of a rollout, as trainers receive it. A failure is never a reward. */
export type ExecutionOutcome =
  /**
   * The samples that stay in training, by id: each has a finite reward. `removed` are the ids of
   * samples with answered model calls that the grader removed.
   */
  | {
      readonly kind: 'rewarded'
      readonly samples: ReadonlyMap<string, RolloutSample>
      readonly removed: readonly string[]
    }
  /** The grader removed every sample from training. */
  | { readonly kind: 'removed' }
  | { readonly kind: 'failed'; readonly category: ErrorCategory; readonly message: string }
  /** `lease`: the caller did not request the result in time. */
  | {
      readonly kind: 'cancelled'
      readonly by: 'trainer' | 'shutdown' | 'lease'
      readonly message: string
    }

/** How the rewards of several samples are combined for a trainer that takes one number. */
export type RewardRule = 'single' | 'mean' | 'sum' | { readonly sampleId: string }

/**
 * Executes a rollout, always with grading, and resolves with its one outcome. Never rejects: a backend
 * that throws, or ends without a result, is a failure.
 *
 * @param options - `gates` of its model calls, and `onEvent`, which is called with each event
 */
export async function runToEnd(
  backend: Pick<ExecutionBackend, 'execute'>,
  request: RolloutRequest,
  { gates, onEvent }: { gates?: ModelCallGates; onEvent?: (event: RolloutEvent) => void } = {},
): Promise<ExecutionOutcome> {
  const graded = { ...request, grade: true }
  return outcomeOf(await reportOf(executeThrough([settled], backend, graded, gates), onEvent))
}

/**
 * The reward of a rollout for trainers that take one number and train all its model calls with it.
 *
 * @param rule - default `single`: exactly one sample must have a reward
 * @throws OsmosisError with code `invalid_reward` when the rule gives no finite number, or when a sample
 * was removed, because its calls would still be trained; `unknown_sample` when the sample that the rule
 * names has no reward
 */
export function oneReward(
  { samples, removed }: Extract<ExecutionOutcome, { kind: 'rewarded' }>,
  rule: RewardRule = 'single',
): number {
  if (removed.length > 0) {
    throw new OsmosisError(
      'invalid_reward',
      `The trainer takes one reward for all model calls of a rollout, but the grader removed ${removed.join(', ')}, whose calls would still be trained. Give every sample a reward, and choose their mean, their sum, or the sample whose reward counts; or remove all of them.`,
    )
  }
  const ids = [...samples.keys()].join(', ')
  if (typeof rule === 'object') {
    const { sampleId } = rule
    const sample = samples.get(sampleId)
    if (sample !== undefined) return rewardOf(sample)
    throw new OsmosisError(
      'unknown_sample',
      `The reward rule names sample "${sampleId}", but this rollout has rewards only for: ${ids}.`,
    )
  }
  if (rule === 'single' && samples.size !== 1) {
    throw new OsmosisError(
      'invalid_reward',
      `The trainer takes one reward per rollout, but this one has ${samples.size} samples (${ids}). Choose their mean, their sum, or the sample whose reward counts.`,
    )
  }
  let sum = 0
  for (const sample of samples.values()) sum += rewardOf(sample)
  const reward = rule === 'mean' ? sum / samples.size : sum
  assertReward(ids, reward)
  return reward
}

const nothingToTrainOn =
  'The rollout has a reward, but none of its model calls was answered, so there is nothing to train on. Did the agent use a model of its own instead of the rollout model?'

/** The one outcome of a rollout that was to be graded. */
export function outcomeOf({ workflow, grading }: RolloutReport): ExecutionOutcome {
  const failure = workflow.failure ?? grading?.failure
  if (failure) return endOfFailure(failure)
  if (grading === undefined)
    return endOfFailure(toFailure(new Error('The rollout was not graded.')))

  const { samples } = grading
  const rewarded = new Map([...samples].filter(([, { removeSample }]) => !removeSample))
  if (rewarded.size === 0 && samples.size > 0) return { kind: 'removed' }
  try {
    if (rewarded.size === 0) throw new OsmosisError('no_samples', 'The rollout has no sample.')
    for (const sample of rewarded.values()) rewardOf(sample)
  } catch (error) {
    return endOfFailure(toFailure(error))
  }
  const calls = [...rewarded.values()].flatMap((sample) => sample.calls)
  if (!hasAnswer([...calls, ...(workflow.otherCalls ?? [])])) {
    return endOfFailure(toFailure(new OsmosisError('no_samples', nothingToTrainOn)))
  }
  const removed = [...samples].filter(
    ([id, sample]) => !rewarded.has(id) && hasAnswer(sample.calls),
  )
  return { kind: 'rewarded', samples: rewarded, removed: removed.map(([id]) => id) }
}

function hasAnswer(calls: RolloutSample['calls']): boolean {
  return calls.some(({ error }) => error === null)
}

function endOfFailure({ cause, category, message }: RolloutFailure): ExecutionOutcome {
  const by = cancellerOf(cause)
  return by === undefined
    ? { kind: 'failed', category, message }
    : { kind: 'cancelled', by, message }
}

function rewardOf({ id, reward }: RolloutSample): number {
  assertReward(id, reward)
  return reward
}
