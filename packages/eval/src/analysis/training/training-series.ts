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
  | 'entropy'
  | 'clipped'
  | 'cutOff'
  | 'failed'
  | 'tokens'
  | 'toolCalls'
  | 'rolloutSeconds'
  | 'updateSeconds'

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
  const all = [
    series('reward', 'Reward', 'number', ({ rollouts }) => rollouts.reward, rewardInterval),
    series('passRate', 'Pass rate', 'share', ({ rollouts }) => rollouts.passRate, passInterval),
    heldOut('heldOutReward', 'Held-out reward', 'number', ({ reward }) => reward, rewardInterval),
    heldOut('heldOutPassRate', 'Held-out pass rate', 'share', (f) => f.passRate, passInterval),
    series('signal', 'Groups with a signal', 'share', ({ batch }) =>
      batch.groups === 0 ? null : batch.groupsWithSignal / batch.groups,
    ),
    series('drift', 'Drift of logprobs, mean', 'number', ({ update }) => update?.driftMean),
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
  ]
  return all.filter(({ points }) => points.length > 0)
}

function rewardInterval({ rewardFrom, rewardTo }: StepFigures): TrainingPoint['interval'] {
  return rewardFrom === null || rewardTo === null ? null : [rewardFrom, rewardTo]
}

function passInterval({ passFrom, passTo }: StepFigures): TrainingPoint['interval'] {
  return passFrom == null || passTo == null ? null : [passFrom, passTo]
}
