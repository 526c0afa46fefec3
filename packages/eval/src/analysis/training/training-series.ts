import { formatCount, formatShare } from '../figures/number-text.ts'
import { average } from '../statistics/estimate.ts'
import type { StepFigures, TrainingRecord } from './training-records.ts'

/** A value of a training at one of its steps. */
export interface TrainingPoint {
  /** Updates before it for an evaluation, else the number of the step, from 1. */
  readonly step: number
  /** The run with its rollouts. */
  readonly run: string
  readonly value: number
  /** The 95 % interval; null where there is none. */
  readonly interval: readonly [low: number, high: number] | null
}

export type SeriesKey =
  | 'reward'
  | 'passRate'
  | 'heldOutReward'
  | 'heldOutPassRate'
  | 'signal'
  | 'drift'
  | 'age'
  | 'entropy'
  | 'clipped'
  | 'cutOff'
  | 'failed'
  | 'tokens'
  | 'toolCalls'
  | 'rolloutSeconds'
  | 'updateSeconds'
  | `metric:${string}`

/** One figure over the steps of a training. */
export interface TrainingSeries {
  readonly key: SeriesKey
  readonly label: string
  readonly unit: 'share' | 'seconds' | 'number'
  /** In the order of the steps; those without a value are missing. */
  readonly points: readonly TrainingPoint[]
}

/** What curves show, each over the steps. A series without any value is left out. */
export function trainingSeries(records: readonly TrainingRecord[]): TrainingSeries[] {
  const steps = records.filter((record) => record.kind === 'step')
  const evaluations = records.filter((record) => record.kind === 'evaluation')
  const series = (
    key: SeriesKey,
    label: string,
    unit: TrainingSeries['unit'],
    valueOf: (step: (typeof steps)[number]) => number | null | undefined,
    intervalOf: (rollouts: StepFigures) => TrainingPoint['interval'] = () => null,
  ): TrainingSeries => ({
    key,
    label,
    unit,
    points: steps.flatMap((record) => {
      const value = valueOf(record) ?? null
      const { step, run, rollouts } = record
      return value === null ? [] : [{ step, run, value, interval: intervalOf(rollouts) }]
    }),
  })
  const heldOut = (
    key: SeriesKey,
    label: string,
    unit: TrainingSeries['unit'],
    valueOf: (rollouts: StepFigures) => number | null,
    intervalOf: (rollouts: StepFigures) => TrainingPoint['interval'],
  ): TrainingSeries => ({
    key,
    label,
    unit,
    points: evaluations.flatMap(({ step, run, rollouts }) => {
      const value = valueOf(rollouts)
      return value === null ? [] : [{ step, run, value, interval: intervalOf(rollouts) }]
    }),
  })
  const ages = steps.map(({ batch }) => batch.age ?? 0)
  const all = [
    series('reward', 'Reward', 'number', ({ rollouts }) => rollouts.reward, rewardInterval),
    series('passRate', 'Pass rate', 'share', ({ rollouts }) => rollouts.passRate, passInterval),
    heldOut('heldOutReward', 'Held-out reward', 'number', ({ reward }) => reward, rewardInterval),
    heldOut('heldOutPassRate', 'Held-out pass rate', 'share', (f) => f.passRate, passInterval),
    series('signal', 'Groups with a signal', 'share', ({ batch }) =>
      batch.groups === 0 ? null : batch.groupsWithSignal / batch.groups,
    ),
    series('drift', 'Drift of logprobs, mean', 'number', ({ update }) => update?.driftMean),
    ...(ages.some((age) => age > 0)
      ? [series('age', 'Age of answers in updates, mean', 'number', ({ batch }) => batch.age)]
      : []),
    series('entropy', 'Entropy', 'number', ({ update }) => update?.entropy),
    series('clipped', 'Clipped tokens', 'share', ({ update }) => update?.clipFraction),
    series('cutOff', 'Answers cut off', 'share', ({ rollouts }) => rollouts.cutOff),
    series('failed', 'Failed rollouts', 'share', ({ rollouts }) =>
      rollouts.rollouts === 0 ? null : rollouts.failed / rollouts.rollouts,
    ),
    series('tokens', 'Tokens per rollout', 'number', ({ rollouts }) => rollouts.answerTokens),
    series('toolCalls', 'Tool calls per rollout', 'number', ({ rollouts }) => rollouts.toolCalls),
    series('rolloutSeconds', 'Time of rollouts', 'seconds', ({ rollouts }) => rollouts.seconds),
    series('updateSeconds', 'Time of the update', 'seconds', ({ update }) => update?.seconds),
    ...metricNames(records).map((name) =>
      series(
        `metric:${name}`,
        `Metric ${name}`,
        'number',
        ({ rollouts }) => rollouts.metrics?.[name],
      ),
    ),
  ]
  return all.filter(({ points }) => points.length > 0)
}

/** What graders set besides rewards, in the steps of a training. */
function metricNames(records: readonly TrainingRecord[]): string[] {
  const names = records.flatMap((record) =>
    record.kind === 'step' ? Object.keys(record.rollouts.metrics ?? {}) : [],
  )
  return [...new Set(names)].toSorted()
}

function rewardInterval({ rewardFrom, rewardTo }: StepFigures): TrainingPoint['interval'] {
  return rewardFrom === null || rewardTo === null ? null : [rewardFrom, rewardTo]
}

function passInterval({ passFrom, passTo }: StepFigures): TrainingPoint['interval'] {
  return passFrom == null || passTo == null ? null : [passFrom, passTo]
}

/** Steps at the start and at the end that are compared without evaluations. */
const compared = 3

/**
 * What the model does differently now, in a sentence: how much it writes, how often it calls tools, and how its answers end.
 * The first and the last evaluation are compared; with fewer than two of them the first and the last steps, at most 3 each.
 * Null without two measurements.
 *
 * Only clear differences count. With n rollouts in the smaller measurement a mean changes clearly by a tenth and by 2/√n of its
 * larger value, a share by 5 points and by 1/√n.
 */
export function behaviourChange(records: readonly TrainingRecord[]): string | null {
  const figuresOf = (kind: TrainingRecord['kind']): StepFigures[] =>
    records.flatMap((record) =>
      record.kind === kind && 'rollouts' in record && record.rollouts.rollouts > 0
        ? [record.rollouts]
        : [],
    )
  const evaluations = figuresOf('evaluation')
  const isHeldOut = evaluations.length > 1
  const measured = isHeldOut ? evaluations : figuresOf('step')
  const count = isHeldOut ? 1 : Math.min(compared, Math.floor(measured.length / 2))
  if (count === 0) return null
  const where = isHeldOut ? 'On held-out rows' : `In the latest step${count === 1 ? '' : 's'}`
  return `${where} ${changeText(measured.slice(0, count), measured.slice(-count))}.`
}

/** A figure of the first and of the last measurements. */
type Change = readonly [before: number, now: number]

function changeText(first: readonly StepFigures[], last: readonly StepFigures[]): string {
  const counts = [first, last].map((list) => list.reduce((sum, { rollouts }) => sum + rollouts, 0))
  const noise = 1 / Math.sqrt(Math.min(...counts))
  const change = (value: (figures: StepFigures) => number): Change => [
    average(first.map(value)),
    average(last.map(value)),
  ]
  // A mean below 0.5 is that of rare events.
  const isClear = ([before, now]: Change): boolean =>
    Math.abs(now - before) >= Math.max(0.1, 2 * noise) * Math.max(before, now, 0.5)
  const isClearShare = ([before, now]: Change): boolean =>
    Math.abs(now - before) >= Math.max(0.05, noise)
  const tokens = change(({ answerTokens }) => answerTokens)
  const tools = change(({ toolCalls }) => toolCalls)
  const cutOff = change((figures) => figures.cutOff)
  const failed = change((figures) => figures.failed / figures.rollouts)
  // Not every server counts tokens, and not every agent has tools.
  const hasTokens = Math.min(...tokens) > 0
  const hasTools = Math.max(...tools) > 0
  const endings = [
    ...(isClearShare(cutOff) ? [shareText('answer', 'is cut off', 'are cut off', cutOff)] : []),
    ...(isClearShare(failed) ? [shareText('rollout', 'fails', 'fail', failed)] : []),
  ]
  const hasChanged = (hasTokens && isClear(tokens)) || (hasTools && isClear(tools))
  if (!hasChanged && endings.length === 0) {
    const same = [...(hasTokens ? ['length'] : []), ...(hasTools ? ['tool calls'] : [])]
    return `${same.join(', ')}${same.length > 0 ? ' and ' : ''}endings are about the same`
  }
  const own = [
    ...(hasTokens ? [isClear(tokens) ? tokenText(tokens) : 'writes about as much'] : []),
    ...(hasTools ? [isClear(tools) ? toolText(tools) : 'calls tools as often'] : []),
  ]
  const all = [...own, ...endings]
  const and = endings.length === 0 ? ' and ' : ', and '
  const text = [all.slice(0, -1).join(', '), ...all.slice(-1)].filter((part) => part !== '')
  return `${own.length > 0 ? 'it now ' : ''}${text.join(and)}`
}

function tokenText([before, now]: Change): string {
  return `writes ${meanText(now)} tokens per rollout instead of ${meanText(before)}`
}

function toolText([before, now]: Change): string {
  if (now === 0) return `calls no tools (before: ${meanText(before)} times per rollout)`
  const calls = `calls tools ${meanText(now)} times per rollout`
  return before === 0
    ? `${calls}, which it did not before`
    : `${calls} instead of ${meanText(before)}`
}

function shareText(noun: string, one: string, many: string, [before, now]: Change): string {
  const text = now === 0 ? `no ${noun} ${one}` : `${percent(now)} of the ${noun}s ${many}`
  return `${text} (before: ${before === 0 ? 'none' : percent(before)})`
}

function percent(share: number): string {
  return share < 0.01 ? formatShare(share) : `${Math.round(100 * share)} %`
}

function meanText(mean: number): string {
  return mean >= 10 ? formatCount(Math.round(mean)) : mean.toFixed(mean < 1 ? 2 : 1)
}
