import { OsmosisError } from './errors.ts'
import type { PolicyCall } from './policy/call-log.ts'
import type { ChatMessage } from './policy/chat-completion.ts'

/** One conversation with the policy inside a rollout: what a grader judges and a reward is for. */
export interface RolloutSample {
  readonly id: string
  /** The conversation as the agent framework keeps it; its form is the framework's own. */
  readonly messages: readonly unknown[]
  /**
   * The conversation as the policy saw and wrote it, in chat completions form; null when no model
   * call was made under this id. Never sent in a callback.
   */
  readonly trajectoryMessages: readonly ChatMessage[] | null
  /** The model calls of the sample, in the order they were made. Never sent in a callback. */
  readonly calls: readonly PolicyCall[]
  /** Set through the grader's context; null until then. */
  readonly reward: number | null
  /**
   * What each answered model call in `calls` was worth, where the grader said so: as many as there are
   * calls without an error, in their order. Null without. Never sent in a callback.
   */
  readonly stepRewards: readonly (number | null)[] | null
  /** A label of the sample's own; the row's label is the grader's. */
  label: string | null
  /** True keeps the sample out of training: it needs no reward, and none is reported. */
  removeSample: boolean
  /** Numbers to be shown next to the reward. */
  metrics: Record<string, unknown>
  /** Anything else that is worth keeping with the sample; must have a JSON form. */
  extraFields: Record<string, unknown>
}

/** What {@link toRolloutSample} takes; everything but the first two is optional. */
export type RolloutSampleInit = Pick<RolloutSample, 'id' | 'messages'> &
  Partial<Pick<RolloutSample, 'trajectoryMessages' | 'label' | 'metrics' | 'extraFields'>>

/** Builds a sample with nothing but what is given. For sample sources. */
export function toRolloutSample(init: RolloutSampleInit): RolloutSample {
  return {
    id: init.id,
    messages: init.messages,
    trajectoryMessages: init.trajectoryMessages ?? null,
    calls: [],
    reward: null,
    stepRewards: null,
    label: init.label ?? null,
    removeSample: false,
    metrics: copyOfFields(init.metrics),
    extraFields: copyOfFields(init.extraFields),
  }
}

/**
 * A copy of metrics or extra fields. Getters of the user's may throw when they are read: then they
 * are copied as getters, and whoever sends the fields drops them. The rollout continues either way.
 */
export function copyOfFields(
  fields: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  try {
    return { ...fields }
  } catch {
    return Object.defineProperties({}, Object.getOwnPropertyDescriptors(fields))
  }
}

/**
 * A reward is a finite number: JSON turns NaN into null, which trainers read as "no reward".
 *
 * @throws OsmosisError with code `invalid_reward`
 */
export function assertReward(sampleId: string, reward: unknown): asserts reward is number {
  if (typeof reward === 'number' && Number.isFinite(reward)) return
  throw new OsmosisError(
    'invalid_reward',
    `The reward of sample "${sampleId}" must be a finite number, got ${typeof reward === 'number' ? reward : `${typeof reward} ${JSON.stringify(reward) ?? ''}`.trim()}.`,
  )
}

/**
 * Step rewards are finite numbers or null, one for each answered model call.
 *
 * @throws OsmosisError with code `invalid_reward`
 */
export function assertStepRewards(
  { id, calls }: Pick<RolloutSample, 'id' | 'calls'>,
  rewards: readonly unknown[],
): void {
  const answered = calls.filter(({ error }) => error === null).length
  // Of a conversation that is graded again the calls are not known.
  if (calls.length > 0 && rewards.length !== answered) {
    throw new OsmosisError(
      'invalid_reward',
      `Sample "${id}" has ${answered} answered model calls, got ${rewards.length} step rewards. Give one for each call without an error, in their order; null says nothing about a step.`,
    )
  }
  for (const reward of rewards) if (reward !== null) assertReward(id, reward)
}
