import type { SeriesKey, TrainingSeries } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import type { TrainingAnswer } from '../../src/wire.ts'
import { unknown } from '../format.ts'
import { hrefOf } from '../route.ts'
import { seriesText } from './figure-text.ts'

interface StepTableProps {
  readonly training: TrainingAnswer
  readonly series: readonly TrainingSeries[]
  readonly at: number | null
}

/** Evaluations have lines of their own. */
const evaluated: ReadonlySet<SeriesKey> = new Set(['heldOutReward', 'heldOutPassRate'])

/** Every step and evaluation with its figures and a link to its conversations, the newest first. */
export function StepTable({
  training: { name, records },
  series,
  at,
}: StepTableProps): JSX.Element {
  const columns = series.filter(({ key }) => !evaluated.has(key))
  const values = new Map(
    columns.map(({ key, points }) => [
      key,
      new Map(points.map((point) => [point.run, point.value])),
    ]),
  )
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
            <tr key={record.run} class={record.kind === 'step' && record.step === at ? 'here' : ''}>
              <td class="name">
                <a href={hrefOf({ page: 'run', run: `${name}/${record.run}` })}>
                  {record.kind === 'step' ? `Step ${record.step}` : evaluationText(record.step)}
                </a>
                {record.kind === 'step' &&
                  record.alarms.map((alarm) => (
                    <div key={alarm} class="alarm">
                      {alarm}
                    </div>
                  ))}
              </td>
              {columns.map((column) => (
                <td key={column.key} class="end">
                  {record.kind === 'step'
                    ? shown(column, values.get(column.key)?.get(record.run))
                    : shown(column, evaluationValue(column.key, record.rollouts))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
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

function shown(series: TrainingSeries, value: number | undefined): string {
  return value === undefined ? unknown : seriesText(series, value)
}
