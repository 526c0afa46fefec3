import { average } from '../../statistics/estimate.ts'
import type { StepFigures, StepRecord } from '../training-records.ts'

/** A step of which the alarms are not known yet. */
export type MeasuredStep = Omit<StepRecord, 'alarms'>

/** Steps at the start and at the end that are compared. */
export const compared = 3

/** How many times the entropy has to be what it was, or the reverse, to be far from it. */
const farEntropy = 3
/** Nats. Below it an entropy that rose three times is that of a policy that begins to try something. */
const noticedRise = 0.5

/** Rewards that a policy had, and can lose. */
interface Baseline {
  readonly reward: number
  /** Below it a reward is lower by more than chance. */
  readonly lowest: number
  readonly entropy: number
}

/**
 * What happened to a policy that lost half of its best reward, or whose entropy rose far without a better reward; undefined for one
 * that did not. The best reward is that of any three steps, of the first step alone, or of the evaluation before it.
 */
export function collapseOf(
  step: MeasuredStep,
  before: readonly StepRecord[],
  evaluated: StepFigures | undefined,
): string | undefined {
  // A step whose rollouts all failed says nothing about the policy.
  const earlier = before.filter(({ rollouts }) => rollouts.reward !== null)
  const [first] = earlier
  const now = step.rollouts.reward
  if (first === undefined || now === null) return undefined
  const entropy = step.update?.entropy ?? Number.NaN
  const best = baselines(first, earlier, evaluated).reduce((a, b) => (b.reward > a.reward ? b : a))
  const hasLostHalf = (reward: number): boolean =>
    best.reward - reward > Math.abs(best.reward) / 2 && reward < best.lowest
  const isFar = entropy > best.entropy * farEntropy || entropy < best.entropy / farEntropy
  const hasNoSignal = step.batch.groups > 0 && step.batch.groupsWithSignal === 0
  const isLasting = hasLostHalf(rewardIn([...earlier.slice(1 - compared), step]))
  if (hasLostHalf(now) && (isFar || isLasting || hasNoSignal)) {
    const direction = entropy > best.entropy ? 'rose' : 'fell'
    const change = `and the entropy ${direction} from ${figureText(best.entropy)} to ${figureText(entropy)}, `
    return `The reward fell from ${figureText(best.reward)} to ${figureText(now)} (limit: a loss of half), ${isFar ? change : ''}so the policy collapses`
  }
  const usual = first.update?.entropy ?? Number.NaN
  const hasRisen = entropy > usual * farEntropy && entropy - usual > noticedRise
  if (!hasRisen || now > (first.rollouts.reward ?? 0)) return undefined
  return `The entropy rose from ${figureText(usual)} in step ${first.step} to ${figureText(entropy)} (limit: ${farEntropy} times as much) without a better reward, so the policy collapses`
}

function baselines(
  first: StepRecord,
  earlier: readonly StepRecord[],
  evaluated: StepFigures | undefined,
): Baseline[] {
  const windows = earlier
    .slice(compared - 1)
    .map((_, at) => earlier.slice(at, at + compared))
    .map((steps) => ({
      reward: rewardIn(steps),
      lowest: Infinity,
      entropy: average(steps.flatMap(({ update }) => update?.entropy ?? [])),
    }))
  const { reward, rewardFrom } = first.rollouts
  const entropy = first.update?.entropy ?? Number.NaN
  const start = { reward: reward ?? 0, lowest: rewardFrom ?? Infinity, entropy }
  const heldOut = evaluated?.reward ?? -Infinity
  // The untrained policy answered both. Where their rewards are far apart, so are their rows.
  const isLikeRows = start.reward >= heldOut / 2
  const others = isLikeRows
    ? [{ reward: heldOut, lowest: evaluated?.rewardFrom ?? Infinity, entropy }]
    : []
  return [...windows, start, ...others]
}

function rewardIn(steps: readonly MeasuredStep[]): number {
  return average(steps.map(({ rollouts }) => rollouts.reward ?? 0))
}

/** Two decimals, or two digits of a smaller figure: it never looks like 0 unless it is. */
export function figureText(value: number): string {
  return value === 0 || Math.abs(value) >= 0.01 ? value.toFixed(2) : value.toPrecision(2)
}
