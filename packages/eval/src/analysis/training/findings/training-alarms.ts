import { average } from '../../statistics/estimate.ts'
import type { StepFigures, StepRecord, TrainingRecord } from '../training-records.ts'
import { collapseOf, compared, figureText, type MeasuredStep } from './policy-collapse.ts'

/** The mean difference of logprobs, as all outputs show it: two digits below 0.001. */
export function driftText(drift: number): string {
  if (drift === 0) return '0'
  return drift < 0.001 ? drift.toExponential(0) : drift.toFixed(3)
}

/** Beyond these a step raises an alarm. */
const limits = {
  failed: 0.2,
  drift: 0.05,
  entropy: 0.01,
  cutOff: 0.2,
  contextFull: 0.2,
  lostWork: 1 / 4,
  equalGroups: 1 / 2,
  passed: 0.02,
}

/** A mean below this is that of rare events. */
const noticedMean = 0.1

/**
 * What is suspicious about a step, each as a sentence with the figure and its limit, why it matters and what to do: something
 * that the same command can change when it continues, or how a new training begins. The steps before it are in `earlier`, and
 * the evaluation before the first of them is `evaluated`.
 */
export function alarmsOf(
  step: MeasuredStep,
  earlier: readonly StepRecord[],
  evaluated?: StepFigures,
): string[] {
  const { rollouts, update } = step
  const alarms: string[] = []
  const failure = failureAlarm(rollouts)
  if (failure !== undefined) alarms.push(failure)
  const drift = update?.driftMean ?? 0
  if (drift > limits.drift) {
    alarms.push(
      `The learner's logprobs differ from the recorded ones by ${driftText(drift)} on average (limit ${limits.drift}), so updates may go the wrong way: check template, temperature, precision and padding.${constraintText(step)}`,
    )
  }
  const collapse = collapseOf(step, earlier, evaluated)
  if (collapse !== undefined) {
    alarms.push(`${collapse}: stop, lower lr or set kl, and ${fromBestWeights(step, earlier)}.`)
  }
  // What a policy that collapses writes says nothing about rows, attempts and limits.
  const isSound = collapse === undefined
  const equal = isSound ? equalityAlarm(step, earlier) : undefined
  if (equal !== undefined) alarms.push(equal)
  const entropy = update?.entropy ?? Infinity
  if (entropy < limits.entropy) {
    alarms.push(
      `The entropy is ${entropy.toFixed(4)} (limit ${limits.entropy}): the policy hardly varies, and attempts will stop to differ. Lower lr.`,
    )
  }
  if (isSound && rollouts.cutOff > limits.cutOff) {
    alarms.push(
      `${percent(rollouts.cutOff)} of the answers were cut off (limit ${percent(limits.cutOff)}), so their rewards say little: raise max_response_length. A smaller max_tokens that the agent sets is code, and changed code is a new training: --fresh starts it.`,
    )
  }
  const { contextFull = 0 } = rollouts
  if (isSound && contextFull > limits.contextFull) {
    alarms.push(
      `${percent(contextFull)} of the rollouts ended because their context was full (limit ${percent(limits.contextFull)}): raise max_prompt_length, or --max-length where it is set.`,
    )
  }
  return [...alarms, ...lostWorkAlarms(step, earlier)]
}

/** A reward that rises while the policy does less for it. */
function lostWorkAlarms({ rollouts }: MeasuredStep, earlier: readonly StepRecord[]): string[] {
  const first = earlier.slice(0, compared)
  if (first.length < compared || earlier.length < 2 * compared) return []
  const isBetter = (rollouts.reward ?? 0) > meanOf(first, ({ reward }) => reward ?? 0)
  return (
    [
      ['tool calls', ({ toolCalls }) => toolCalls],
      ['tokens', ({ answerTokens }) => answerTokens],
    ] satisfies [string, (rollouts: StepFigures) => number][]
  ).flatMap(([name, value]) => {
    const [now, before] = [value(rollouts), meanOf(first, value)]
    const least = before * limits.lostWork
    if (!isBetter || before < noticedMean || now >= least) return []
    return [
      `The reward rose while ${name} per rollout fell from ${meanText(before)} to ${meanText(now)} (limit ${meanText(least)}): read some conversations, the grader may reward too little work.`,
    ]
  })
}

function constraintText({ batch: { constrained = 0 } }: MeasuredStep): string {
  if (constrained === 0) return ''
  const [answers, them] =
    constrained === 1 ? ['1 answer was', 'it'] : [`${constrained} answers were`, 'them']
  return ` ${answers} held to a form by the request (\`constraints\` of the calls): where the server masks tokens for that, the logprobs are not the policy's, so ask for the form in a message, or leave ${them} out with \`trainable: false\`.`
}

/** What is said about attempts that do not differ, so that nothing is learned from them. */
function equalityAlarm(step: MeasuredStep, earlier: readonly StepRecord[]): string | undefined {
  const { rollouts, batch, phase } = step
  const equal = batch.groups - batch.groupsWithSignal
  // Where most attempts failed, too few rewards are left that could differ.
  if (batch.groups === 0 || rollouts.failed * 2 > rollouts.rollouts) return undefined
  if (phase === 'warm_start') {
    return batch.groupsWithSignal > 0
      ? undefined
      : 'No attempt reached the threshold of the warm start, so nothing was learned: lower --warm-start.'
  }
  if (batch.groupsWithSignal === 0) {
    const names =
      batch.groups > step.rows.length ? 'or samples with other ids, so give agents names; ' : 'so '
    const advice =
      rollouts.passRate < 1
        ? 'Raise rollout_temperature or --n, imitate the best attempts with --warm-start, take other rows, or reward parts of a success'
        : 'All attempts passed: take harder rows'
    return `None of ${batch.groups} groups has a signal: all attempts at each row had the same reward, ${names}nothing was learned.${commonText(rollouts)} ${advice}. ${newTraining(step, earlier)}`
  }
  if (equal <= batch.groups * limits.equalGroups || rollouts.passRate >= limits.passed) {
    return undefined
  }
  return `The attempts at ${equal} of ${batch.groups} rows had equal rewards (limit: half of the rows) and ${percent(rollouts.passRate)} passed, so learning stops short of its goal.${commonText(rollouts)} Raise rollout_temperature or --n, so that some attempts differ; take other rows, or reward what these attempts lack. ${newTraining(step, earlier)}`
}

/** What attempts with equal rewards have in common. */
function commonText({ equal }: StepFigures): string {
  if (equal === undefined) return ''
  const { rows, reward, answer, missing } = equal
  const lacks = missing.length === 0 ? '' : `, with 0 for ${missing.join(', ')}`
  const wrote = answer === '' ? '' : `; one of them wrote ${JSON.stringify(answer)}`
  return ` At ${rows} ${rows === 1 ? 'row' : 'rows'} all attempts got ${figureText(reward)}${lacks}${wrote}.`
}

/** How a training begins that may not be this one; another trainer has its own ways. */
function newTraining(step: MeasuredStep, earlier: readonly StepRecord[]): string {
  if (step.settings === undefined) return 'Other rows and another reward are a new training.'
  const hasLearned = [...earlier, step].some(({ update }) => update !== null)
  const how = hasLearned
    ? `train local starts it from these weights: ${exporting(step, earlier)} ends this one and writes them to its folder model, which --model takes with another --name`
    : '--fresh starts it'
  return `Other rows and another reward are a new training; ${how}.`
}

function fromBestWeights(step: MeasuredStep, earlier: readonly StepRecord[]): string {
  if (step.settings === undefined) return 'continue from the best checkpoint'
  const hasLearned = earlier.some(({ update }) => update !== null)
  if (!hasLearned) return 'start again with --fresh'
  return `start again, with --fresh, or with train local from the best weights: ${exporting(step, earlier)} writes them to the folder best-model, or model where the last are the best, which --model takes with another --name`
}

/** Flags that end a training after the steps that it has. */
function exporting({ step }: MeasuredStep, earlier: readonly StepRecord[]): string {
  const warm = earlier.filter(({ phase }) => phase === 'warm_start').length
  return `--steps ${Math.max(1, step - warm)} --export merged`
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
  const advice =
    type === 'timeout'
      ? moreTime
      : 'Mend that first; changed code is a new training, which --fresh starts'
  const text = message === '' ? '' : ` (${message})`
  return `${share}, and nothing is learned from them: ${failure.rollouts} with ${type}${text}. ${advice}.`
}

function meanOf(
  steps: readonly MeasuredStep[],
  value: (rollouts: StepRecord['rollouts']) => number,
): number {
  return average(steps.map(({ rollouts }) => value(rollouts)))
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}

function meanText(mean: number): string {
  return mean >= 1 ? mean.toFixed(1) : figureText(mean)
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
      // Answers that it quotes are figures, too.
      const kind = text.replaceAll(/"(?:[^"\\]|\\.)*"/g, '#').replaceAll(/\d+(?:[.e-]+\d+)*/g, '#')
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
