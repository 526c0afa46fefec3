import type { ChatMessage } from '../policy/chat-completion.ts'

const brand = Symbol.for('osmosis.reward_function')

/**
 * A reward function as the platform calls it: with the text to judge, the reference answer and the rest of the
 * row.
 */
export type RewardFunction<Reward extends number | Promise<number>> = (
  solutionStr: string,
  groundTruth: string,
  extraInfo?: Readonly<Record<string, unknown>> | null,
  others?: Readonly<Record<string, unknown>>,
) => Reward

/**
 * Adds the checks of the `osmosis_reward` contract to a reward function: both texts are strings, `extraInfo` is
 * an object or null, and the reward is a finite number. The function may be asynchronous; `others` has further
 * arguments of the platform and is not checked.
 *
 * @throws TypeError for anything else; an asynchronous function rejects with it
 */
export function defineReward<Reward extends number | Promise<number>>(
  compute: (
    solutionStr: string,
    groundTruth: string,
    extraInfo: Readonly<Record<string, unknown>> | null,
    others: Readonly<Record<string, unknown>>,
  ) => Reward,
): RewardFunction<Reward> {
  const name = compute.name || 'the reward function'
  const reward: RewardFunction<Reward> = (
    solutionStr,
    groundTruth,
    extraInfo = null,
    others = {},
  ) => {
    assertText('solutionStr', solutionStr)
    assertText('groundTruth', groundTruth)
    assertExtraInfo(extraInfo)
    const computed = compute(solutionStr, groundTruth, extraInfo, others)
    if (isPromise(computed)) {
      return computed.then((value) => checkedReward(name, value)) as Reward
    }
    return checkedReward(name, computed) as Reward
  }
  Object.defineProperty(reward, 'name', { value: compute.name })
  Object.defineProperty(reward, brand, { value: true })
  return reward
}

/** True for a result of {@link defineReward}, also of another installed copy. */
export function isRewardFunction(
  value: unknown,
): value is RewardFunction<number | Promise<number>> {
  return typeof value === 'function' && brand in value
}

function assertText(name: string, value: unknown): void {
  if (typeof value !== 'string') {
    throw new TypeError(`'${name}' must be a string, got ${typeName(value)}`)
  }
}

function assertExtraInfo(value: unknown): void {
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw new TypeError(`'extraInfo' must be an object or null, got ${typeName(value)}`)
  }
}

function checkedReward(name: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value
  throw new TypeError(`${name} must return a finite number, got ${typeName(value)}`)
}

function isPromise(value: number | Promise<number>): value is Promise<number> {
  return typeof (value as Partial<Promise<number>> | null | undefined)?.then === 'function'
}

function typeName(value: unknown): string {
  if (value === null) return 'null'
  if (typeof value === 'number') return String(value)
  return Array.isArray(value) ? 'array' : typeof value
}

/** A finished conversation of an evaluation. */
export interface EvalInput {
  /**
   * The whole conversation: of an agent loop in chat completions form, of a workflow in the form of its
   * framework.
   */
  readonly messages: readonly ChatMessage[]
  /** Text of the last answer, without thinking; '' without one. See `lastAssistantText`. */
  readonly solutionStr: string
  /** The reference answer of the row; null when it has none. */
  readonly groundTruth: string | null
  /** The metadata of the row and its columns beyond those of the dataset format. */
  readonly metadata: Readonly<Record<string, unknown>>
  /** The reward of the grader or of the loop itself; null without one. */
  readonly reward: number | null
}

/**
 * Scores a conversation for `osmosis eval run --eval-fn`. The score is a finite number. A conversation has no
 * score when the function throws or returns anything else.
 */
export type EvalFunction = (input: EvalInput) => number | Promise<number>
