import type { StepRecord } from './training-records.ts'

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
      `The learner's logprobs differ from the recorded ones by ${update.driftMean?.toFixed(3)} on average: check template, temperature, precision and padding.`,
    )
  }
  if (batch.groups > 0 && batch.groupsWithSignal === 0) {
    alarms.push(
      step.phase === 'warm_start'
        ? 'No attempt reached the threshold of the warm start: nothing was learned.'
        : 'No group has a signal: all attempts at each row had the same reward, so nothing was learned.',
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

function meanOf(
  steps: readonly StepRecord[],
  value: (rollouts: StepRecord['rollouts']) => number,
): number {
  return steps.reduce((sum, { rollouts }) => sum + value(rollouts), 0) / steps.length
}
