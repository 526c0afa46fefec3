import type { StepRecord } from './training-records.ts'
import { average } from '../statistics/estimate.ts'

/** The mean difference of logprobs, as all outputs show it: two digits below 0.001. */
export function driftText(drift: number): string {
  if (drift === 0) return '0'
  return drift < 0.001 ? drift.toExponential(0) : drift.toFixed(3)
}

/** A step of which the alarms are not known yet. */
type MeasuredStep = Omit<StepRecord, 'alarms'>

/** Steps at the start and at the end that are compared. */
const compared = 3

/**
 * What is suspicious about a step, each as a sentence that says what to look at; the steps before it are in `earlier`.
 */
export function alarmsOf(step: MeasuredStep, earlier: readonly StepRecord[]): string[] {
  const { rollouts, batch, update } = step
  const alarms: string[] = []
  if (update !== null && (update.driftMean ?? 0) > 0.05) {
    alarms.push(
      `The learner's logprobs differ from the recorded ones by ${driftText(update.driftMean ?? 0)} on average: check template, temperature, precision and padding.`,
    )
  }
  if (batch.groups > 0 && batch.groupsWithSignal === 0) {
    alarms.push(
      step.phase === 'warm_start'
        ? 'No attempt reached the threshold of the warm start: nothing was learned.'
        : `No group has a signal: all attempts at each row had the same reward, ${batch.groups > step.rows.length ? 'or samples with other ids, so give agents names; ' : 'so '}nothing was learned.`,
    )
  }
  if (update?.entropy !== null && update?.entropy !== undefined && update.entropy < 0.01) {
    alarms.push(
      `The entropy is ${update.entropy.toFixed(4)}: the policy hardly varies, and attempts will stop to differ.`,
    )
  }
  if (rollouts.cutOff > 0.2) {
    alarms.push(
      `${Math.round(rollouts.cutOff * 100)} % of the answers were cut off: raise max_response_length, or the max_tokens of calls that set one.`,
    )
  }
  const collapse = collapseOf(step, earlier)
  if (collapse !== undefined) alarms.push(collapse)
  const first = earlier.slice(0, compared)
  if (first.length === compared && earlier.length >= 2 * compared) {
    const reward = meanOf(first, ({ reward: mean }) => mean ?? 0)
    const isBetter = (rollouts.reward ?? 0) > reward
    const collapsed = (name: string, now: number, before: number): void => {
      if (isBetter && before > 0 && now < before / 4) {
        alarms.push(
          `The reward rose while ${name} fell from ${before.toFixed(1)} to ${now.toFixed(1)}: read some conversations, the grader may reward too little work.`,
        )
      }
    }
    const tools = meanOf(first, ({ toolCalls }) => toolCalls)
    collapsed('tool calls per rollout', rollouts.toolCalls, tools)
    const length = meanOf(first, ({ answerTokens }) => answerTokens)
    collapsed('tokens per rollout', rollouts.answerTokens, length)
  }
  return alarms
}

/** How many times the entropy has to be what it was, or the reverse, to be far from it. */
const farEntropy = 3

/** What is said about a policy that lost half of its best reward: over several steps, or in one whose entropy is far away. */
function collapseOf(step: MeasuredStep, before: readonly StepRecord[]): string | undefined {
  // A step whose rollouts all failed says nothing about the policy.
  const earlier = before.filter(({ rollouts }) => rollouts.reward !== null)
  const now = step.rollouts.reward
  if (earlier.length < compared || now === null) return undefined
  const windows = earlier.slice(compared - 1).map((_, at) => earlier.slice(at, at + compared))
  const rewardIn = (steps: readonly MeasuredStep[]): number =>
    average(steps.map(({ rollouts }) => rollouts.reward ?? 0))
  const best = windows.reduce((a, b) => (rewardIn(b) > rewardIn(a) ? b : a))
  const highest = rewardIn(best)
  const hasFallen = (reward: number): boolean => highest - reward > Math.abs(highest) / 2
  const was = best.flatMap(({ update }) => update?.entropy ?? [])
  const usual = average(was)
  const entropy = step.update?.entropy ?? Number.NaN
  const isFar = entropy > usual * farEntropy || entropy < usual / farEntropy
  const isLasting = hasFallen(rewardIn([...earlier.slice(1 - compared), step]))
  if (!hasFallen(now) || !(isFar || isLasting)) return undefined
  const change = `and the entropy ${entropy > usual ? 'rose' : 'fell'} from ${usual.toFixed(2)} to ${entropy.toFixed(2)}, `
  return `The reward fell from ${highest.toFixed(2)} to ${now.toFixed(2)}, ${isFar ? change : ''}so the policy collapses: stop, lower lr or set kl, and continue from the best checkpoint.`
}

function meanOf(
  steps: readonly MeasuredStep[],
  value: (rollouts: StepRecord['rollouts']) => number,
): number {
  return average(steps.map(({ rollouts }) => value(rollouts)))
}
