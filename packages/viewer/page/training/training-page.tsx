import {
  formatCount,
  formatQuantity,
  alarmGroups,
  behaviourChange,
  bestRun,
  type SeriesKey,
  settingsText,
  type EvaluationRecord,
  type StartRecord,
  type StepRecord,
  type TrainingSeries,
  trainingSeries,
  type TrainingPoint,
} from '@osmosis/eval/analysis'
import { Fragment, type JSX } from 'preact'
import { useMemo, useState } from 'preact/hooks'

import type { TrainingAnswer } from '../../src/wire.ts'
import { unknown, intervalText } from '../format.ts'
import { useKeys } from '../keys.ts'
import { AlarmLine } from '../parts/alarm-line.tsx'
import { LineChart, type ChartLine, type ChartSteps } from '../parts/line-chart.tsx'
import { type Go, hrefOf } from '../route.ts'
import { useIsLive } from '../source/connection.tsx'
import type { Source } from '../source/source.ts'
import { axisText, seriesText } from './figure-text.ts'
import { RowSteps } from './row-steps.tsx'
import { stepRun, stepOf } from './training-runs.ts'
import { useTrainingRows } from './use-training.ts'

/** Series without a small chart: the large one draws three of them, and only the table has `heldOutPassRate`. */
const withoutSmallChart: ReadonlySet<SeriesKey> = new Set([
  'reward',
  'passRate',
  'heldOutReward',
  'heldOutPassRate',
])

interface TrainingPageProps {
  readonly source: Source
  readonly training: TrainingAnswer
  readonly go: Go
}

/** A training: its curves, its alarms, how each row did over the steps, and a way to the conversations of each step. */
export function TrainingPage({ source, training, go }: TrainingPageProps): JSX.Element {
  const { name, records, current } = training
  const series = useMemo(() => trainingSeries(records), [records])
  const steps = records.filter((record) => record.kind === 'step')
  const changedAt = steps.reduce((last, { endedAt }) => (endedAt > last ? endedAt : last), '')
  const rows = useTrainingRows(source, name, changedAt)
  const [at, setAt] = useState<number | null>(null)
  const last = steps.at(-1)?.step ?? 0
  const span = [steps.length === 0 ? 0 : 1, Math.max(last + (current === null ? 0 : 1), 2)] as const
  const open = (step: number): void => {
    const run = stepRun(training, step)
    if (run !== undefined)
      go({ page: 'run', run: `${name}/${run}`, query: '', selected: '' }, 'push')
  }
  const move = (by: number) => () => {
    setAt(Math.min(last, Math.max(1, at === null ? (by > 0 ? 1 : last) : at + by)))
  }
  useKeys({
    ArrowRight: move(1),
    ArrowLeft: move(-1),
    j: move(1),
    k: move(-1),
    Enter: at === null ? undefined : () => open(at),
    Escape: () => setAt(null),
  })
  const shared = { steps: span, at, onPoint: setAt, onOpen: open }
  return (
    <main class="page training" tabIndex={0} aria-label="Training">
      <Head training={training} series={series} />
      <Alarms training={training} />
      {steps.length === 0 && current === null ? (
        <p class="lead">No step has ended yet.</p>
      ) : (
        <>
          <RewardChart training={training} series={series} {...shared} />
          <div class="charts">
            {series
              .filter(({ key }) => !withoutSmallChart.has(key))
              .map((each) => (
                <SmallChart key={each.key} series={each} {...shared} />
              ))}
          </div>
          {rows !== null && rows.length > 0 && <RowSteps name={name} rows={rows} at={at} />}
          <StepTable training={training} series={series} at={at} />
        </>
      )}
    </main>
  )
}

function SmallChart({ series, ...shared }: ChartSteps & { series: TrainingSeries }): JSX.Element {
  const { label, points } = series
  const shown = pointAt(points, shared.at)
  return (
    <section class="card" aria-label={label}>
      <h2>
        {label}
        <b>{shown === undefined ? '' : seriesText(series, shown.value)}</b>
      </h2>
      <LineChart
        label={`${label} over ${formatQuantity(points.length, 'step')}`}
        lines={[{ name: label, tone: 'first', shape: 'line', points }]}
        height={84}
        text={(value) => axisText(series, value)}
        {...shared}
      />
    </section>
  )
}

/** The result so far, in a sentence, and what is trained. */
function Head({ training: { name, state, records, current }, series }: Measured): JSX.Element {
  const wasRunning = !useIsLive() && state === 'running'
  const started = records.findLast((record) => record.kind === 'start')
  const ended = records.at(-1)
  const steps = records.filter((record) => record.kind === 'step').length
  const heldOut = series.find(({ key }) => key === 'heldOutReward')
  const measured =
    heldOut !== undefined && heldOut.points.length > 1
      ? heldOut
      : series.find(({ key }) => key === 'reward')
  const [first, last] = [measured?.points[0], measured?.points.at(-1)]
  const change = behaviourChange(records)
  const planned = started?.steps ?? null
  const done =
    planned === null
      ? formatQuantity(steps, 'step')
      : `${formatCount(steps)} of ${formatQuantity(planned, 'step')}`
  return (
    <>
      <p class="sentence">
        {first === undefined || last === undefined || measured === undefined ? (
          'No reward yet'
        ) : (
          <>
            {measured.label} {first !== last && `${first.value.toFixed(3)} → `}
            <span class={last.value > first.value ? 'up' : last.value < first.value ? 'down' : ''}>
              {last.value.toFixed(3)}
            </span>
          </>
        )}
        {` after ${done}`}
      </p>
      {change !== null && <p class="lead change">{change}</p>}
      <p class="lead">
        <span class={`state ${wasRunning ? '' : state === 'interrupted' ? 'incomplete' : state}`}>
          {wasRunning ? 'running when last seen' : state}
        </span>{' '}
        {ended?.kind === 'end' && ended.reason}
        {state === 'interrupted' &&
          `The same osmosis ${started?.steps === null ? 'serve or worker' : 'train'} command continues it.`}
        {current !== null && (
          <a href={hrefOf({ page: 'run', run: `${name}/${current.run}` })}>
            {current.run}: {formatCount(current.ended)} of{' '}
            {formatQuantity(current.total, 'rollout')}
          </a>
        )}{' '}
        {started !== undefined && <span class="dim">{aboutText(started)}</span>}
      </p>
    </>
  )
}

function aboutText(start: StartRecord): string {
  const { model, rollout, dataset, rowsPerStep, attempts, settings = {} } = start
  const on = dataset === null ? '' : ` on ${dataset}`
  const size =
    rowsPerStep === null ? '' : `, ${formatQuantity(rowsPerStep, 'row')} × ${attempts} per step`
  const changed = settingsText(settings)
  return `${model}, ${rollout}${on}${size}${changed === '' ? '' : `; ${changed}`}`
}

/** The alarms, the newest first. */
function Alarms({ training: { name, records } }: { training: TrainingAnswer }): JSX.Element | null {
  const alarms = useMemo(() => alarmGroups(records), [records])
  if (alarms.length === 0) return null
  return (
    <section class="card alarms" aria-label="Alarms">
      <h2>
        {formatQuantity(alarms.length, 'alarm')}
        {alarms.length > 1 && ', the newest first'}
      </h2>
      {alarms.map(({ steps, text, newest }) => (
        <p key={text}>
          <a href={hrefOf({ page: 'run', run: `${name}/${newest.run}` })}>{steps}</a> {text}
        </p>
      ))}
    </section>
  )
}

/** Evaluations have lines of their own. */
const evaluated: ReadonlySet<SeriesKey> = new Set(['heldOutReward', 'heldOutPassRate'])

/** Every step and evaluation with its figures and a link to its conversations, the newest first. */
function StepTable({
  training: { name, records },
  series,
  at,
}: Measured & Pick<ChartSteps, 'at'>): JSX.Element {
  const columns = series.filter(({ key }) => !evaluated.has(key))
  const values = new Map(
    columns.map(({ key, points }) => [
      key,
      new Map(points.map((point) => [point.run, point.value])),
    ]),
  )
  const best = useMemo(() => bestRun(records), [records])
  const lines = records
    .flatMap((record) => (record.kind === 'step' || record.kind === 'evaluation' ? [record] : []))
    .toReversed()
  return (
    <div class="sheet steptable" tabIndex={0} role="region" aria-label="Steps">
      <table class="grid">
        <thead>
          <tr>
            <th>Conversations</th>
            {columns.map(({ key, label }) => (
              <th key={key} class="end">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lines.map((record) => (
            <Fragment key={record.run}>
              <tr class={lineClass(record, at)}>
                <td class="name">
                  <a href={hrefOf({ page: 'run', run: `${name}/${record.run}` })}>
                    {record.kind === 'step' ? `Step ${record.step}` : evaluationText(record.step)}
                  </a>
                  {record.run === best && (
                    <span class="chip note" title="The reward of its policy is the highest">
                      best
                    </span>
                  )}
                </td>
                {columns.map((column) => (
                  <td key={column.key} class="end">
                    {record.kind === 'step'
                      ? valueText(column, values.get(column.key)?.get(record.run))
                      : valueText(column, evaluationValue(column.key, record.rollouts))}
                  </td>
                ))}
              </tr>
              {record.kind === 'step' && (
                <AlarmLine alarms={record.alarms} columns={columns.length + 1} />
              )}
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function lineClass(record: StepRecord | EvaluationRecord, at: number | null): string {
  if (record.kind === 'evaluation') return ''
  return `${record.step === at ? 'here' : ''}${record.alarms.length > 0 ? ' alarmed' : ''}`
}

function evaluationText(step: number): string {
  return step === 0 ? 'Held-out rows before' : `Held-out rows after ${step}`
}

function evaluationValue(
  key: SeriesKey,
  { reward, passRate }: { readonly reward: number | null; readonly passRate: number },
): number | undefined {
  if (key === 'reward') return reward ?? undefined
  return key === 'passRate' ? passRate : undefined
}

function valueText(series: TrainingSeries, value: number | undefined): string {
  return value === undefined ? unknown : seriesText(series, value)
}

/** A training and its figures over the steps. */
interface Measured {
  readonly training: TrainingAnswer
  readonly series: readonly TrainingSeries[]
}

const tones = { reward: 'first', passRate: 'second', heldOutReward: 'third' } as const

/** Reward, pass rate and the reward of held-out rows, with their intervals and what is measured now. */
function RewardChart(props: ChartSteps & Measured): JSX.Element {
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
  const point = pointAt(series.points, at)
  if (point === undefined) return ''
  const value = seriesText(series, point.value)
  return point.interval === null
    ? value
    : `${value} ${intervalText(point.value, point.interval, (each) => seriesText(series, each))}`
}

/** The point of a step, or the last one when no step is read; undefined when the step has no value. */
function pointAt(points: readonly TrainingPoint[], at: number | null): TrainingPoint | undefined {
  return at === null ? points.at(-1) : points.find(({ step }) => step === at)
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
