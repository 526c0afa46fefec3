import { cancellerOf } from '../lifecycle/rollout-lifecycle.ts'
import type {
  ExecutionBackend,
  GradingOutcome,
  RolloutFailure,
  RolloutObserver,
  RolloutRequest,
  WorkflowOutcome,
} from './execution-backend.ts'
import { toFailure } from './workflow-phase.ts'
import { type ErrorCategory, OsmosisError, type RolloutSample } from '@osmosis/core'
import { assertReward } from '@osmosis/core/workflow'

/** The one end of a rollout, as trainers are told it. A failure is never a reward. */
export type RolloutEnd =
  /**
   * The samples that are kept, by their ids: each has a finite reward. `removed` are the ids of those
   * that the grader took out, and whose model calls were answered.
   */
  | {
      readonly kind: 'rewarded'
      readonly samples: ReadonlyMap<string, RolloutSample>
      readonly removed: readonly string[]
    }
  /** The grader took every sample out of training. */
  | { readonly kind: 'removed' }
  | { readonly kind: 'failed'; readonly category: ErrorCategory; readonly message: string }
  /** `lease`: nobody asked for the result in time. */
  | {
      readonly kind: 'cancelled'
      readonly by: 'trainer' | 'shutdown' | 'lease'
      readonly message: string
    }

/** How the rewards of several samples become the one number that a trainer takes. */
export type RewardRule = 'single' | 'mean' | 'sum' | { readonly sampleId: string }

/**
 * Executes a rollout, with its grading whatever the request says of that, and resolves with its one
 * end. Never rejects: a backend that throws, or ends without a result, is a failure.
 *
 * @param observer - hears everything that happens, as of `execute`
 */
export async function runToEnd(
  backend: Pick<ExecutionBackend, 'execute'>,
  request: RolloutRequest,
  observer: Partial<RolloutObserver> = {},
): Promise<RolloutEnd> {
  let workflow: WorkflowOutcome | undefined
  let grading: GradingOutcome | undefined
  try {
    await backend.execute(
      { ...request, grade: true },
      {
        ...forwarded(observer),
        async workflowFinished(outcome, samples) {
          workflow = outcome
          await observer.workflowFinished?.(outcome, samples)
        },
        async gradingFinished(outcome) {
          grading = outcome
          await observer.gradingFinished?.(outcome)
        },
      },
    )
  } catch (error) {
    return endOf(workflow, grading, toFailure(error))
  }
  return endOf(workflow, grading, toFailure(new Error(noResult)))
}

/**
 * The reward of a rollout for trainers that take one number, and train all model calls of the rollout
 * with it.
 *
 * @param rule - default `single`: there has to be exactly one kept sample
 * @throws OsmosisError with code `invalid_reward` when the rule gives no finite number, or a sample was
 * removed, which would be trained all the same; `unknown_sample` when the sample that the rule names is
 * not kept
 */
export function oneReward(
  { samples, removed }: Extract<RolloutEnd, { kind: 'rewarded' }>,
  rule: RewardRule = 'single',
): number {
  if (removed.length > 0) {
    throw new OsmosisError(
      'invalid_reward',
      `The trainer takes one reward for all model calls of a rollout, and the grader removed ${removed.join(', ')}, whose calls would be trained with it. Give every sample a reward, and choose their mean, their sum, or the sample whose reward counts; or remove all of them.`,
    )
  }
  const ids = [...samples.keys()].join(', ')
  if (typeof rule === 'object') {
    const { sampleId } = rule
    const sample = samples.get(sampleId)
    if (sample !== undefined) return rewardOf(sample)
    throw new OsmosisError(
      'unknown_sample',
      `The reward is that of sample "${sampleId}", which this rollout did not keep. Its kept samples are: ${ids}.`,
    )
  }
  if (rule === 'single' && samples.size !== 1) {
    throw new OsmosisError(
      'invalid_reward',
      `The trainer takes one reward per rollout, and this one kept ${samples.size} samples (${ids}). Choose their mean, their sum, or the sample whose reward counts.`,
    )
  }
  let sum = 0
  for (const sample of samples.values()) sum += rewardOf(sample)
  const reward = rule === 'mean' ? sum / samples.size : sum
  assertReward(ids, reward)
  return reward
}

const noResult = 'The backend ended the rollout without a result.'

const nothingToTrainOn =
  'The rollout has a reward, but no model call of it was answered: there is nothing to train on. Did the agent use a model of its own instead of the rollout model?'

/** What outcomes say goes before what happened to the backend afterwards. */
function endOf(
  workflow: WorkflowOutcome | undefined,
  grading: GradingOutcome | undefined,
  otherwise: RolloutFailure,
): RolloutEnd {
  const failure = workflow?.failure ?? grading?.failure
  if (failure) return endOfFailure(failure)
  if (workflow?.status !== 'success' || grading?.status !== 'success')
    return endOfFailure(otherwise)

  const { samples } = grading
  const kept = new Map([...samples].filter(([, { removeSample }]) => !removeSample))
  if (kept.size === 0 && samples.size > 0) return { kind: 'removed' }
  try {
    if (kept.size === 0) throw new OsmosisError('no_samples', 'The rollout has no sample.')
    for (const sample of kept.values()) rewardOf(sample)
  } catch (error) {
    return endOfFailure(toFailure(error))
  }
  const calls = [...kept.values()].flatMap((sample) => sample.calls)
  if (!hasAnswer([...calls, ...(workflow.otherCalls ?? [])])) {
    return endOfFailure(toFailure(new OsmosisError('no_samples', nothingToTrainOn)))
  }
  const removed = [...samples].filter(([id, sample]) => !kept.has(id) && hasAnswer(sample.calls))
  return { kind: 'rewarded', samples: kept, removed: removed.map(([id]) => id) }
}

function hasAnswer(calls: RolloutSample['calls']): boolean {
  return calls.some(({ error }) => error === null)
}

function endOfFailure({ cause, category, message }: RolloutFailure): RolloutEnd {
  const by = cancellerOf(cause)
  return by === undefined
    ? { kind: 'failed', category, message }
    : { kind: 'cancelled', by, message }
}

/** Only what the observer has: a backend waits for nobody where nobody listens. */
function forwarded(
  observer: Partial<RolloutObserver>,
): Pick<RolloutObserver, 'phaseChanged' | 'beforeFirstModelCall' | 'modelCallBegins'> {
  const { phaseChanged, beforeFirstModelCall, modelCallBegins } = observer
  return {
    ...(phaseChanged && { phaseChanged: phaseChanged.bind(observer) }),
    ...(beforeFirstModelCall && { beforeFirstModelCall: beforeFirstModelCall.bind(observer) }),
    ...(modelCallBegins && { modelCallBegins: modelCallBegins.bind(observer) }),
  }
}

function rewardOf({ id, reward }: RolloutSample): number {
  assertReward(id, reward)
  return reward
}
