import type { TinyPolicy, UpdateOptions } from './tiny-policy.ts'
import type { TrainedCall } from './trained-call.ts'

/**
 * Updates a tiny policy from what a trainer has recorded: answers of rollouts that were better than their group
 * become more likely, those of worse ones less likely. Default: 4 steps of 6.0, clipped at 0.2.
 */
export function learn(
  policy: TinyPolicy,
  calls: readonly TrainedCall[],
  options: Partial<UpdateOptions> = {},
): void {
  const advantageOf = groupAdvantages(calls)
  // Sums of floating point numbers depend on their order, and answers arrive in any order.
  const inOrder = calls.toSorted((a, b) => compare(orderOf(a), orderOf(b)))
  policy.update(
    inOrder.map((call) => ({ ...call, advantage: advantageOf(call) })),
    { steps: 4, learningRate: 6, clip: 0.2, ...options },
  )
}

/**
 * How far the reward of a call's rollout is from the mean of its group, in standard deviations. Each rollout
 * counts once, however many calls it made, and one without a reward is in no call and so not at all.
 */
function groupAdvantages(calls: readonly TrainedCall[]): (call: TrainedCall) => number {
  const groups = new Map<string, Map<string, number>>()
  for (const { group, rolloutId, reward } of calls) {
    const members = groups.get(group) ?? new Map<string, number>()
    groups.set(group, members.set(`${rolloutId}/${reward}`, reward))
  }
  const scales = new Map(
    [...groups].map(([group, members]) => [group, scaleOf([...members.values()])]),
  )
  return ({ group, reward }) => {
    const { mean, deviation } = scales.get(group) ?? { mean: 0, deviation: 0 }
    return (reward - mean) / (deviation + 1e-4)
  }
}

function scaleOf(rewards: readonly number[]): { mean: number; deviation: number } {
  const mean = average(rewards)
  return { mean, deviation: Math.sqrt(average(rewards.map((reward) => (reward - mean) ** 2))) }
}

function average(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function orderOf({ rolloutId, promptIds, ids }: TrainedCall): string {
  return JSON.stringify([rolloutId, promptIds.length, promptIds, ids])
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
