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
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'

import { oneLine, rewardText } from '../format.ts'
import { rem } from '../media/text-size.ts'
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
  const list = useRef<HTMLDivElement>(null)
  const [cell, setCell] = useState<Cell>(firstCell)
  const [isMoving, setIsMoving] = useState(false)
  const current = cellIn(lines, cell)
  useLayoutEffect(() => {
    if (!isMoving) return
    const enter = (): boolean => {
      const found = list.current?.querySelector<HTMLElement>('.cells a[tabindex="0"]')
      found?.focus()
      return found !== null && found !== undefined
    }
    // Its line may only be drawn when the list has scrolled there.
    if (!enter()) setTimeout(enter, 60)
    setIsMoving(false)
  })
  const move = (event: KeyboardEvent): void => {
    const next = current && nextCell(lines, current, event.key)
    if (next === undefined) return
    event.preventDefault()
    // From the list itself its current cell is entered.
    const isInCell = event.target instanceof Element && event.target.matches('a')
    setCell(isInCell ? next : (current ?? next))
    setIsMoving(true)
  }
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
      <div
        class="rowlist"
        ref={list}
        onKeyDown={move}
        style={{ height: rem(Math.min(14, lines.length) * 30 + 2) }}
      >
        <VirtualList
          count={lines.length}
          focus={current?.line ?? -1}
          isFollowing={isMoving}
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
              <RowLine
                key={line.row}
                {...{ name, history: line, last, at }}
                top={top}
                tabStop={index === current?.line ? current.step : -1}
              />
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
  tabStop,
}: {
  name: string
  history: RowHistory
  last: number
  at: number | null
  top: number
  /** The place of the step whose cell is in the order of tabs; -1 for none. */
  tabStop: number
}): JSX.Element {
  const { row, question, facets, steps } = history
  const about = question || Object.values(facets).join(', ')
  return (
    <div class="line" style={{ top: `${top}px` }}>
      <span class="name cut" title={about}>
        Row {row} <span class="dim">{oneLine(about)}</span>
      </span>
      <span class="cells">
        {steps.map((step, place) => (
          <a
            key={step.step}
            class={`share-${shareOf(step)}${step.step === at ? ' here' : ''}`}
            style={{ left: `${(100 * (step.step - 1)) / last}%`, width: `${100 / last}%` }}
            href={hrefOf({ page: 'run', run: `${name}/${step.run}`, selected: `${row}.1` })}
            aria-label={cellText(row, step)}
            title={cellText(row, step)}
            tabIndex={place === tabStop ? 0 : -1}
          />
        ))}
      </span>
      <span class="fate cut">{rowVerdict(history)}</span>
    </div>
  )
}

/** A cell by the place of its line, and that of its step in the row. */
interface Cell {
  readonly line: number
  readonly step: number
}

const firstCell: Cell = { line: 0, step: 0 }

type Lines = ReturnType<typeof linesOf>

function stepsAt(lines: Lines, line: number): readonly RowAtStep[] {
  const found = lines[line]
  return found === undefined || typeof found === 'string' ? [] : found.steps
}

/** The cell, or the nearest one of the lines as they are now; undefined where none has a cell. */
function cellIn(lines: Lines, { line, step }: Cell): Cell | undefined {
  const places = [...lines.keys()].filter((place) => stepsAt(lines, place).length > 0)
  const place = places.find((each) => each >= line) ?? places.at(-1)
  if (place === undefined) return undefined
  return { line: place, step: Math.min(step, stepsAt(lines, place).length - 1) }
}

/** The cell beside a cell in the direction of an arrow key, or the cell itself at the edge; undefined for other keys. */
function nextCell(lines: Lines, { line, step }: Cell, key: string): Cell | undefined {
  const steps = stepsAt(lines, line)
  if (key === 'ArrowRight') return { line, step: Math.min(steps.length - 1, step + 1) }
  if (key === 'ArrowLeft') return { line, step: Math.max(0, step - 1) }
  const by = { ArrowDown: 1, ArrowUp: -1 }[key]
  if (by === undefined) return undefined
  let next = line + by
  while (next in lines && stepsAt(lines, next).length === 0) next += by
  // A row has cells only for the steps that drew it.
  const wanted = steps[step]?.step ?? 0
  const own = stepsAt(lines, next)
  if (own.length === 0) return { line, step }
  const after = own.findIndex((each) => each.step >= wanted)
  return { line: next, step: after === -1 ? own.length - 1 : after }
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
