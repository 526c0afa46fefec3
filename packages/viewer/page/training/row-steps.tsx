import {
  formatQuantity,
  type LearnedRows,
  lostReward,
  type RowAtStep,
  type RowHistory,
  rowsByLearnedStep,
  rowVerdict,
} from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useMemo, useState } from 'preact/hooks'

import { oneLine, rewardText } from '../format.ts'
import { rem } from '../text/text-size.ts'
import { VirtualList } from '../parts/virtual-list.tsx'
import { hrefOf } from '../route.ts'

type Order = 'row' | 'lost' | 'learnedFirst' | 'learnedLast'

const orders: readonly (readonly [order: Order, text: string])[] = [
  ['row', 'by row'],
  ['lost', 'what fell most'],
  ['learnedFirst', 'what was learned first'],
  ['learnedLast', 'what was learned last'],
]

interface RowStepsProps {
  readonly name: string
  readonly rows: readonly RowHistory[]
  /** The step whose cells are marked; null for none. */
  readonly at: number | null
}

/** Every row of the dataset over the steps that drew it: when was it learned, and which step broke it. */
export function RowSteps({ name, rows, at }: RowStepsProps): JSX.Element {
  const [order, setOrder] = useState<Order>('row')
  const lines = useMemo(() => linesOf(rows, order), [rows, order])
  const last = rows.reduce((most, { steps }) => Math.max(most, steps.at(-1)?.step ?? 0), 1)
  return (
    <section class="card rows" aria-label="The rows over the steps">
      <h2>
        The same row over the steps
        {orders.map(([each, text]) => (
          <button
            key={each}
            class="btn"
            aria-pressed={order === each}
            onClick={() => setOrder(each)}
          >
            {text}
          </button>
        ))}
        {Object.entries(shares).map(([share, text]) => (
          <span key={share}>
            <i class={`swatch share-${share}`} />
            {text}
          </span>
        ))}
      </h2>
      <div class="rowlist" style={{ height: rem(Math.min(14, lines.length) * 30 + 2) }}>
        <VirtualList
          count={lines.length}
          focus={-1}
          role="region"
          label="Rows"
          render={(index, top) => {
            const line = lines[index]
            if (line === undefined) return null
            return typeof line === 'string' ? (
              <div key={line} class="line group" style={{ top: `${top}px` }}>
                {line}
              </div>
            ) : (
              <RowLine key={line.row} {...{ name, history: line, last, at }} top={top} />
            )
          }}
        />
      </div>
    </section>
  )
}

function RowLine({
  name,
  history,
  last,
  at,
  top,
}: {
  name: string
  history: RowHistory
  last: number
  at: number | null
  top: number
}): JSX.Element {
  const { row, question, facets, steps } = history
  const about = question || Object.values(facets).join(', ')
  return (
    <div class="line" style={{ top: `${top}px` }}>
      <span class="name cut" title={about}>
        Row {row} <span class="dim">{oneLine(about)}</span>
      </span>
      <span class="cells">
        {steps.map((step) => (
          <a
            key={step.step}
            class={`share-${shareOf(step)}${step.step === at ? ' here' : ''}`}
            style={{ left: `${(100 * (step.step - 1)) / last}%`, width: `${100 / last}%` }}
            href={hrefOf({ page: 'run', run: `${name}/${step.run}`, selected: `${row}.1` })}
            aria-label={cellText(row, step)}
            title={cellText(row, step)}
            tabIndex={-1}
          />
        ))}
      </span>
      <span class="fate cut">{rowVerdict(history)}</span>
    </div>
  )
}

const shares = {
  all: 'all passed',
  most: 'most',
  some: 'some',
  no: 'none',
  none: 'no reward',
}

function shareOf({ mean, passed, ended }: RowAtStep): keyof typeof shares {
  if (mean === null) return 'none'
  if (passed === ended) return 'all'
  if (passed * 2 > ended) return 'most'
  return passed > 0 ? 'some' : 'no'
}

function cellText(row: number, { step, mean, passed, ended }: RowAtStep): string {
  return `Row ${row} at step ${step}: ${passed} of ${ended} passed, mean ${rewardText(mean)}`
}

/** Rows, and the titles of the groups that they are in. */
function linesOf(rows: readonly RowHistory[], order: Order): readonly (RowHistory | string)[] {
  if (order === 'row') return rows
  if (order === 'lost') {
    return rows.toSorted((a, b) => lostReward(b) - lostReward(a) || a.row - b.row)
  }
  const groups = rowsByLearnedStep(rows)
  const learned = groups.filter(({ step }) => step !== null)
  const others = groups.filter(({ step }) => step === null)
  const sorted = [...(order === 'learnedFirst' ? learned : learned.toReversed()), ...others]
  return sorted.flatMap((group) => [groupTitle(group), ...group.rows])
}

function groupTitle({ step, rows, learned }: LearnedRows): string {
  if (step === null)
    return `Not learned: ${formatQuantity(rows.length, 'row')} mostly failed when last drawn`
  const others = rows.length - learned
  const parts = [
    ...(learned > 0 ? [`${formatQuantity(learned, 'row')} learned`] : []),
    ...(others > 0 ? [`${formatQuantity(others, 'row')} passed when first drawn`] : []),
  ]
  return `Step ${step}: ${parts.join(', ')}`
}
