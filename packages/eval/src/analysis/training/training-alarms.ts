import type { StepFigures, StepRecord, TrainingRecord } from './training-records.ts'
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

/** Beyond these a step raises an alarm. */
const limits = { failed: 0.2, drift: 0.05, entropy: 0.01, cutOff: 0.2, lostWork: 1 / 4 }

/**
 * What is suspicious about a step, each as a sentence with the figure and its limit, why it matters and what to do; the steps
 * before it are in `earlier`.
 */
export function alarmsOf(step: MeasuredStep, earlier: readonly StepRecord[]): string[] {
  const { rollouts, batch, update } = step
  const alarms: string[] = []
  const failure = failureAlarm(rollouts)
  if (failure !== undefined) alarms.push(failure)
  const drift = update?.driftMean ?? 0
  if (drift > limits.drift) {
    alarms.push(
      `The learner's logprobs differ from the recorded ones by ${driftText(drift)} on average (limit ${limits.drift}), so updates may go the wrong way: check template, temperature, precision and padding.`,
    )
  }
  // Where most attempts failed, too few rewards are left that could differ.
  const mostFailed = rollouts.failed * 2 > rollouts.rollouts
  if (!mostFailed && batch.groups > 0 && batch.groupsWithSignal === 0) {
    alarms.push(
      step.phase === 'warm_start'
        ? 'No attempt reached the threshold of the warm start, so nothing was learned: lower it.'
        : `None of ${batch.groups} groups has a signal: all attempts at each row had the same reward, ${batch.groups > step.rows.length ? 'or samples with other ids, so give agents names; ' : 'so '}nothing was learned. Take other rows, or reward parts of a success.`,
    )
  }
  const entropy = update?.entropy ?? Infinity
  if (entropy < limits.entropy) {
    alarms.push(
      `The entropy is ${entropy.toFixed(4)} (limit ${limits.entropy}): the policy hardly varies, and attempts will stop to differ. Lower lr.`,
    )
  }
  if (rollouts.cutOff > limits.cutOff) {
    alarms.push(
      `${Math.round(rollouts.cutOff * 100)} % of the answers were cut off (limit ${100 * limits.cutOff} %), so their rewards say little: raise max_response_length, or the max_tokens of calls that set one.`,
    )
  }
  const collapse = collapseOf(step, earlier)
  if (collapse !== undefined) alarms.push(collapse)
  const first = earlier.slice(0, compared)
  if (first.length === compared && earlier.length >= 2 * compared) {
    const reward = meanOf(first, ({ reward: mean }) => mean ?? 0)
    const isBetter = (rollouts.reward ?? 0) > reward
    const collapsed = (name: string, now: number, before: number): void => {
      if (isBetter && before > 0 && now < before * limits.lostWork) {
        alarms.push(
          `The reward rose while ${name} fell from ${before.toFixed(1)} to ${now.toFixed(1)} (limit ${(before * limits.lostWork).toFixed(1)}): read some conversations, the grader may reward too little work.`,
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

/** What is said about rollouts of a step or an evaluation where many failed; undefined where few did. */
export function failureAlarm({ failed, rollouts, failure }: StepFigures): string | undefined {
  if (failed <= rollouts * limits.failed) return undefined
  const share = `${failed} of ${rollouts} rollouts failed (limit ${100 * limits.failed} %)`
  if (failure === undefined) return `${share}, and nothing is learned from them: read why.`
  const { type, message } = failure
  const moreTime = /^grader\b/.test(message)
    ? 'Raise grader_timeout_s'
    : 'Raise agent_workflow_timeout_s or lower max_response_length'
  const advice = type === 'timeout' ? moreTime : 'Mend that first'
  const text = message === '' ? '' : ` (${message})`
  return `${share}, and nothing is learned from them: ${failure.rollouts} with ${type}${text}. ${advice}.`
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
  return `The reward fell from ${highest.toFixed(2)} to ${now.toFixed(2)} (limit: a loss of half), ${isFar ? change : ''}so the policy collapses: stop, lower lr or set kl, and continue from the best checkpoint.`
}

function meanOf(
  steps: readonly MeasuredStep[],
  value: (rollouts: StepRecord['rollouts']) => number,
): number {
  return average(steps.map(({ rollouts }) => value(rollouts)))
}

/** An alarm that one or more steps raised. */
export interface AlarmGroup {
  /** Their numbers, such as `Step 4` or `Steps 4–9, 12`. */
  readonly steps: string
  /** With the figures of the newest of them. */
  readonly text: string
  readonly newest: StepRecord
}

/** The alarms of a training, the newest first; those that differ in nothing but their figures are one. */
export function alarmGroups(records: readonly TrainingRecord[]): AlarmGroup[] {
  const groups = new Map<string, { steps: StepRecord[]; text: string; isSame: boolean }>()
  for (const record of records) {
    if (record.kind !== 'step') continue
    for (const text of record.alarms) {
      const kind = text.replaceAll(/\d+(?:[.e-]+\d+)*/g, '#')
      const { steps = [], isSame = true, text: known = text } = groups.get(kind) ?? {}
      groups.set(kind, { steps: [...steps, record], text, isSame: isSame && known === text })
    }
  }
  return [...groups.values()]
    .map(({ steps, text, isSame }) => {
      const newest = steps.at(-1) as StepRecord
      const note = isSame ? '' : ` (These are the figures of step ${newest.step}.)`
      return { steps: stepsText(steps.map(({ step }) => step)), text: `${text}${note}`, newest }
    })
    .toSorted((a, b) => b.newest.step - a.newest.step)
}

/** More parts are not shown. */
const maxParts = 4

function stepsText(steps: readonly number[]): string {
  if (steps.length === 1) return `Step ${steps[0]}`
  const ranges: [first: number, last: number][] = []
  for (const step of steps) {
    const range = ranges.at(-1)
    if (range?.[1] === step - 1) range[1] = step
    else ranges.push([step, step])
  }
  return ranges.length > maxParts
    ? `${steps.length} steps from ${steps[0]} to ${steps.at(-1)}`
    : `Steps ${ranges.map(([first, last]) => (first === last ? first : `${first}–${last}`)).join(', ')}`
}
