import { areEqualRewards } from '@osmosis/eval/analysis'

/** A graded sample of an attempt at a row. */
export interface RewardedSample {
  /** Samples with the same group are compared with one another. */
  readonly group: string
  readonly reward: number
  /** One for each call, where the grader gave them. */
  readonly stepRewards?: readonly (number | null)[] | undefined
}

/** How advantages are computed. */
export interface AdvantageOptions {
  /** Whether the difference from the mean is divided by the standard deviation of the group. Default: true. */
  readonly normalize?: boolean
}

/** Keeps a group of nearly equal rewards from having huge advantages. */
const epsilon = 1e-4

/**
 * The advantage of each call of each sample, by the sample's place in the list: how far its reward is from the mean
 * of its group. A group whose rewards are equal but for rounding gives 0 to all, and so does a group of one.
 *
 * With step rewards a call gets the sum of what it and the later calls of its sample earned, each relative to
 * all step rewards of the group (outcome and process supervision of GRPO, arXiv 2402.03300).
 */
export function groupAdvantages(
  samples: readonly RewardedSample[],
  { normalize = true }: AdvantageOptions = {},
): ((call: number) => number)[] {
  const groups = Map.groupBy(samples, ({ group }) => group)
  const scales = new Map(
    [...groups].map(([group, members]) => [
      group,
      {
        outcome: scaleOf(members.map(({ reward }) => reward)),
        step: scaleOf(members.flatMap(({ stepRewards = [] }) => stepRewards.filter(isNumber))),
      },
    ]),
  )
  const relative = (value: number, scale: Scale | undefined): number => {
    if (scale === undefined || scale.deviation === 0) return 0
    if (areEqualRewards([value, scale.mean])) return 0
    const difference = value - scale.mean
    return normalize ? difference / (scale.deviation + epsilon) : difference
  }
  return samples.map(({ group, reward, stepRewards }) => {
    const scale = scales.get(group)
    if (!stepRewards?.some(isNumber)) {
      const advantage = relative(reward, scale?.outcome)
      return () => advantage
    }
    const toGo: number[] = []
    let sum = 0
    for (const [at, step] of [...stepRewards.entries()].toReversed()) {
      if (isNumber(step)) sum += relative(step, scale?.step)
      toGo[at] = sum
    }
    return (call) => toGo[call] ?? 0
  })
}

interface Scale {
  readonly mean: number
  /** Of the population. */
  readonly deviation: number
}

function scaleOf(values: readonly number[]): Scale {
  if (areEqualRewards(values)) return { mean: values[0] ?? 0, deviation: 0 }
  const mean = average(values)
  return { mean, deviation: Math.sqrt(average(values.map((value) => (value - mean) ** 2))) }
}

function average(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number'
}
