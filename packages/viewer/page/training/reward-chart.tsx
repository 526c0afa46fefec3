import type { TrainingPoint, TrainingSeries } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import type { TrainingAnswer } from '../../src/wire.ts'
import { intervalText } from '../format.ts'
import { type ChartLine, LineChart } from '../parts/line-chart.tsx'
import { axisText, seriesText } from './figure-text.ts'
import { stepOf } from './training-runs.ts'

interface RewardChartProps {
  readonly training: TrainingAnswer
  readonly series: readonly TrainingSeries[]
  readonly steps: readonly [first: number, last: number]
  readonly at: number | null
  readonly onPoint: (step: number | null) => void
  readonly onOpen: (step: number) => void
}

const tones = { reward: 'first', passRate: 'second', heldOutReward: 'third' } as const

/** Reward, pass rate and evaluations of held-out rows, with their intervals and what is measured now. */
export function RewardChart(props: RewardChartProps): JSX.Element {
  const { training, series, at, steps } = props
  const chosen = (['reward', 'passRate', 'heldOutReward'] as const).flatMap((key) => {
    const found = series.find((each) => each.key === key)
    return found === undefined ? [] : [{ ...found, key }]
  })
  // With rewards of 0 and 1 the pass rate is the reward.
  const shown = chosen.filter(
    ({ key, points }) => key !== 'passRate' || !areSame(points, chosen[0]),
  )
  const lines = shown.map(({ key, label, points }): ChartLine => ({
    name: label,
    tone: tones[key],
    shape: key === 'heldOutReward' ? 'points' : 'line',
    points,
  }))
  const hasEvaluation = shown.some(({ key }) => key === 'heldOutReward')
  const alarmed = training.records.flatMap((record) =>
    record.kind === 'step' && record.alarms.length > 0 ? [record.step] : [],
  )
  return (
    <section class="card" aria-label="Reward over the steps">
      <h2 class="legend">
        {shown.map((each) => (
          <span key={each.key} class={`key ${tones[each.key]}`}>
            {each.label} <b>{valueAt(each, at)}</b>
          </span>
        ))}
        <span class="dim">
          {at === null
            ? 'with 95 % intervals; click a step to read its conversations'
            : `step ${at}`}
        </span>
      </h2>
      <LineChart
        label={`Reward over ${steps[1]} steps`}
        lines={lines}
        height={240}
        range={[0, 1]}
        text={(value) => axisText({ key: 'reward', unit: 'number' }, value)}
        marked={alarmed}
        pending={pendingPoint(training)}
        {...props}
        steps={[hasEvaluation ? 0 : steps[0], steps[1]]}
      />
    </section>
  )
}

function valueAt(series: TrainingSeries, at: number | null): string {
  const { points } = series
  const point = at === null ? points.at(-1) : points.find(({ step }) => step === at)
  if (point === undefined) return ''
  const value = seriesText(series, point.value)
  return point.interval === null
    ? value
    : `${value} ${intervalText(point.value, point.interval, (each) => seriesText(series, each))}`
}

function areSame(points: readonly TrainingPoint[], other: TrainingSeries | undefined): boolean {
  return (
    other !== undefined &&
    points.length === other.points.length &&
    points.every(({ value }, place) => Math.abs(value - (other.points[place]?.value ?? -1)) < 1e-9)
  )
}

/** The reward of the rollouts of the current step that have ended. */
function pendingPoint({ current }: TrainingAnswer): TrainingPoint | undefined {
  const step = current === null ? null : stepOf(current.run)
  if (current === null || step === null || current.reward === null) return undefined
  return { step, run: current.run, value: current.reward, interval: current.rewardInterval }
}
