import { OsmosisError } from './errors.ts'
import type { PolicyCall } from './policy/call-log.ts'
import type { ChatMessage } from './policy/chat-completion.ts'

/** One conversation with the policy inside a rollout. The grader gives it a reward. */
export interface RolloutSample {
  readonly id: string
  /** The conversation in the form of the agent framework. */
  readonly messages: readonly unknown[]
  /**
   * The conversation as the policy received and wrote it, in chat completions form; null when no model call
   * was made under this id. Never sent in a callback.
   */
  readonly trajectoryMessages: readonly ChatMessage[] | null
  /** The model calls of the sample, in the order they were made. Never sent in a callback. */
  readonly calls: readonly PolicyCall[]
  /** Set through the grader's context; null until then. */
  readonly reward: number | null
  /**
   * Rewards of the answered model calls, if the grader set them: one for each of `calls` without an error, in
   * their order. Null without. Never sent in a callback.
   */
  readonly stepRewards: readonly (number | null)[] | null
  /** A label of the sample; the label of the row is in the grader's context. */
  label: string | null
  /** True removes the sample from training: it needs no reward, and none is reported. */
  removeSample: boolean
  /** Numbers to show next to the reward. */
  metrics: Record<string, unknown>
  /** Any other JSON data to store with the sample. */
  extraFields: Record<string, unknown>
}

/** What {@link toRolloutSample} takes; everything but the first two is optional. */
export type RolloutSampleInit = Pick<RolloutSample, 'id' | 'messages'> &
  Partial<Pick<RolloutSample, 'trajectoryMessages' | 'label' | 'metrics' | 'extraFields'>>

/** Builds a sample, with defaults for missing fields. For sample sources. */
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
 * A copy of metrics or extra fields. If a getter of the user throws, the getters are copied instead, and
 * the sender of the fields drops them: they must not fail the rollout.
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
 * Rewards are finite numbers: JSON turns NaN into null, which means "no reward".
 *
 * @throws OsmosisError with code `invalid_reward`
 */
export function assertReward(sampleId: string, reward: unknown): asserts reward is number {
  if (typeof reward === 'number' && Number.isFinite(reward)) return
  throw new OsmosisError(
    'invalid_reward',
    `The reward of sample "${sampleId}" must be a finite number, got ${typeof reward === 'number' ? reward : `${typeof reward} ${shown(reward)}`.trim()}.`,
  )
}

function shown(value: unknown): string {
  // JSON has no form for it.
  if (typeof value === 'bigint') return `${value}n: give Number(${value}n)`
  try {
    return JSON.stringify(value) ?? ''
  } catch {
    return 'that cannot be shown'
  }
}

/**
 * Step rewards are finite numbers or null: one for each answered model call.
 *
 * @throws OsmosisError with code `invalid_reward`
 */
export function assertStepRewards(
  { id, calls }: Pick<RolloutSample, 'id' | 'calls'>,
  rewards: readonly unknown[],
): void {
  const answered = calls.filter(({ error }) => error === null).length
  // A conversation that is graded again has no calls.
  if (calls.length > 0 && rewards.length !== answered) {
    throw new OsmosisError(
      'invalid_reward',
      `Sample "${id}" has ${answered} answered model calls, got ${rewards.length} step rewards. Give one for each call without an error, in their order; null gives a step no reward.`,
    )
  }
  for (const reward of rewards) if (reward !== null) assertReward(id, reward)
}
