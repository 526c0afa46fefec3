import type { RewardStats } from './evaluation-metrics.ts'

/** Describes a list of rewards; null for an empty one. */
export function rewardStats(rewards: readonly number[]): RewardStats | null {
  const sorted = rewards.toSorted((a, b) => a - b)
  const min = sorted[0]
  const max = sorted.at(-1)
  if (min === undefined || max === undefined) return null
  const average = mean(sorted)
  const variance = mean(sorted.map((reward) => (reward - average) ** 2))
  return { mean: average, median: median(sorted), std: Math.sqrt(variance), min, max }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function median(sorted: readonly number[]): number {
  const upper = Math.floor(sorted.length / 2)
  return mean(sorted.slice(sorted.length % 2 === 0 ? upper - 1 : upper, upper + 1))
}
