import type {
  EvaluationRecord,
  StepFigures,
  StepRecord,
  TrainingRecord,
} from './training-records.ts'

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

/** A record with the figures of rollouts. */
type Measured = Pick<StepRecord | EvaluationRecord, 'step' | 'run' | 'rollouts'>

/** What curves show, each over the steps. A series without any value is left out. */
export function trainingSeries(records: readonly TrainingRecord[]): TrainingSeries[] {
  const steps = records.filter((record) => record.kind === 'step')
  const evaluations = records.filter((record) => record.kind === 'evaluation')
  const seriesOf =
    <T extends Measured>(measured: readonly T[]) =>
    (
      key: SeriesKey,
      label: string,
      unit: TrainingSeries['unit'],
      valueOf: (record: T) => number | null | undefined,
      intervalOf: (rollouts: StepFigures) => TrainingPoint['interval'] = () => null,
    ): TrainingSeries => ({
      key,
      label,
      unit,
      points: measured.flatMap((record) => {
        const value = valueOf(record) ?? null
        const { step, run, rollouts } = record
        return value === null ? [] : [{ step, run, value, interval: intervalOf(rollouts) }]
      }),
    })
  const series = seriesOf(steps)
  const heldOut = seriesOf(evaluations)
  const ages = steps.map(({ batch }) => batch.age ?? 0)
  const all = [
    series('reward', 'Reward', 'number', ({ rollouts }) => rollouts.reward, rewardInterval),
    series('passRate', 'Pass rate', 'share', ({ rollouts }) => rollouts.passRate, passInterval),
    heldOut(
      'heldOutReward',
      'Held-out reward',
      'number',
      ({ rollouts }) => rollouts.reward,
      rewardInterval,
    ),
    heldOut(
      'heldOutPassRate',
      'Held-out pass rate',
      'share',
      ({ rollouts }) => rollouts.passRate,
      passInterval,
    ),
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
