import {
  formatCount,
  formatQuantity,
  type GroupKind,
  type RowGroup,
  type RunTable,
} from '@osmosis/eval/analysis'
import type { JSX } from 'preact'
import { useMemo, useState } from 'preact/hooks'

import { rewardText } from '../format.ts'
import { type Tone, toneOf } from '../parts/dot.tsx'
import { type Draw, Plot } from '../parts/plot.tsx'
import { colour } from '../theme.ts'
import type { DisplayedRun } from './use-run.ts'

interface SignalMapProps {
  readonly run: DisplayedRun
  /** Whether it is a narrow strip, while a transcript is read. */
  readonly thin: boolean
  readonly selected: number | null
  readonly look: string
  /** 1 for the items that match the filter; null when all do. */
  readonly shown: Uint8Array | null
  readonly onPick: (item: number) => void
  readonly onQuery: (query: string) => void
}

/** From left to right. */
const order: Record<GroupKind, number> = { never: 0, signal: 1, flat: 2, always: 3 }

/** Every row as a column of its attempts, from those that never pass to those that always do. */
export function SignalMap(props: SignalMapProps): JSX.Element | null {
  const { run, thin, selected, look, shown, onPick, onQuery } = props
  const { table } = run
  const columns = useMemo(() => columnsOf(table), [run])
  const [tip, setTip] = useState<{ x: number; text: string } | null>(null)
  if (columns.length === 0) return null

  const at = (event: MouseEvent): { column: Column; x: number } | null => {
    if (!(event.currentTarget instanceof HTMLElement)) return null
    const box = event.currentTarget.getBoundingClientRect()
    const place = Math.floor(((event.clientX - box.left) / box.width) * columns.length)
    const column = columns[Math.min(columns.length - 1, Math.max(0, place))]
    if (column === undefined) return null
    // Far enough from the edges for the text.
    const x = Math.min(box.width - 110, Math.max(110, event.clientX - box.left))
    return { column, x }
  }
  const selectedRow = selected === null ? undefined : table.group(selected).row
  const place = columns.findIndex(({ group }) => group.row === selectedRow)
  return (
    <section class={`map${thin ? ' thin' : ''}`} aria-label="Signal map">
      <div
        class="strip"
        onMouseMove={(event) => {
          const found = at(event)
          if (found === null) return setTip(null)
          const { row, passed, ended, mean } = found.column.group
          const text = `Row ${row}: ${passed} of ${ended} passed, mean ${rewardText(mean)}`
          setTip({ x: found.x, text })
        }}
        onMouseLeave={() => setTip(null)}
        onClick={(event) => {
          const items = at(event)?.column.group.items ?? []
          const item = items.find((each) => !table.passed(each)) ?? items[0]
          if (item !== undefined) onPick(item)
        }}
      >
        <Plot
          draw={painter(table, columns, { shown, gap: thin ? 0 : 1 })}
          inputs={[run, thin, look, shown]}
          label={`${formatQuantity(columns.length, 'row')}, sorted by how often they pass`}
        />
        {place >= 0 && (
          <div class="cursor" style={{ left: `${(100 * (place + 0.5)) / columns.length}%` }} />
        )}
        {tip !== null && (
          <div class="tip" style={{ left: `${tip.x}px` }}>
            {tip.text}
          </div>
        )}
      </div>
      {!thin && <Brackets table={table} columns={columns} onQuery={onQuery} />}
      {!thin && <Legend table={table} />}
    </section>
  )
}

/** A row, with its items from the highest value to the lowest: passes are at the bottom. */
interface Column {
  readonly group: RowGroup
  readonly items: readonly number[]
}

function columnsOf(table: RunTable): Column[] {
  const value = (item: number): number => table.value(item) ?? Number.NEGATIVE_INFINITY
  return table.groups
    .toSorted(
      (a, b) => order[a.kind] - order[b.kind] || (a.mean ?? 0) - (b.mean ?? 0) || a.row - b.row,
    )
    .map((group) => ({ group, items: group.items.toSorted((a, b) => value(b) - value(a)) }))
}

/** Rounds to device pixels, so that adjacent columns have no gaps. */
function snap(length: number): number {
  return Math.round(length * devicePixelRatio) / devicePixelRatio
}

function painter(
  table: RunTable,
  columns: readonly Column[],
  { shown, gap }: { shown: Uint8Array | null; gap: number },
): Draw {
  return (canvas, width, height) => {
    const tones: Record<Tone, string> = {
      pass: colour('map-pass'),
      mid: colour('map-mid'),
      fail: colour('map-fail'),
      none: colour('none'),
    }
    const pending = colour('line')
    const attempts = Math.max(
      table.document.attempts,
      columns.reduce((most, { items }) => Math.max(most, items.length), 1),
    )
    const space = attempts > 16 ? 0 : gap
    const edgeOf = (line: number): number => snap((line * (height + space)) / attempts)
    // With more rows than pixels, a pixel is highlighted if any of its rows matches the filter.
    const bars = Math.min(columns.length, Math.floor(width * devicePixelRatio))
    for (let bar = 0; bar < bars; bar++) {
      const from = Math.floor((bar * columns.length) / bars)
      const to = Math.max(from + 1, Math.floor(((bar + 1) * columns.length) / bars))
      const left = snap((bar * width) / bars)
      const right = snap(((bar + 1) * width) / bars)
      for (let line = 0; line < attempts; line++) {
        let item = columns[from]?.items[attempts - 1 - line]
        let isHidden = shown !== null
        for (let place = from; place < to && isHidden; place++) {
          const candidate = columns[place]?.items[attempts - 1 - line]
          if (candidate === undefined || shown?.[candidate] !== 1) continue
          item = candidate
          isHidden = false
        }
        canvas.globalAlpha = isHidden ? 0.16 : 1
        canvas.fillStyle = item === undefined ? pending : tones[toneOf(table, item)]
        const top = edgeOf(line)
        canvas.fillRect(left, top, right - left, edgeOf(line + 1) - space - top)
      }
    }
  }
}

/** A narrower bracket cannot be hit on a phone, so it is not a button; the findings have the same filters. */
const leastShare = 0.07

/** A narrower bracket has no room for a number. */
const leastWritten = 0.02

interface Bracket {
  readonly count: number
  /** Text for one row. */
  readonly one: string
  /** Text for several rows. Default: the same. */
  readonly many?: string
  readonly query: string
}

/** The number of rows of each kind; with one attempt per row only passed or not. */
function Brackets({
  table,
  columns,
  onQuery,
}: {
  table: RunTable
  columns: readonly Column[]
  onQuery: (query: string) => void
}): JSX.Element {
  const rows = columns.length
  const countOf = (wanted: GroupKind): number =>
    columns.filter(({ group: { kind } }) => kind === wanted).length
  const [never, signal] = [countOf('never'), countOf('signal')]
  const [flat, always] = [countOf('flat'), countOf('always')]
  const single = table.document.attempts < 2
  const parts: readonly Bracket[] = single
    ? [
        { count: never + signal + flat, one: 'did not pass', query: 'is:notpassed' },
        { count: always, one: 'passed', query: 'is:passed' },
      ]
    : [
        { count: never, one: 'never passes', many: 'never pass', query: 'is:never' },
        {
          count: signal,
          one: 'with a training signal',
          query: 'is:signal sort:-spread',
        },
        {
          count: flat,
          one: 'has other equal rewards',
          many: 'have other equal rewards',
          query: 'is:flat',
        },
        { count: always, one: 'always passes', many: 'always pass', query: 'is:always' },
      ]
  return (
    <div class="brackets">
      {parts.map(({ count, one, many = one, query }) => {
        if (count === 0) return null
        const text = `${formatQuantity(count, 'row')} ${count === 1 ? one : many}`
        const width = `${(100 * count) / rows}%`
        if (count / rows < leastShare) {
          return (
            <span key={query} title={text} style={{ width }}>
              {count / rows >= leastWritten && formatCount(count)}
            </span>
          )
        }
        return (
          <button
            key={query}
            title={text}
            aria-label={text}
            style={{ width }}
            onClick={() => onQuery(query)}
          >
            {text}
          </button>
        )
      })}
    </div>
  )
}

/** What the colours of the cells mean. */
function Legend({ table }: { table: RunTable }): JSX.Element {
  const { threshold } = table.document
  const { values } = table
  const has = (test: (value: number | null) => boolean): boolean => values.some(test)
  const keys = [
    ['map-pass', `${threshold} or more`, true],
    ['map-mid', 'between', has((value) => value !== null && value > 0 && value < threshold)],
    ['map-fail', '0 or less', has((value) => value !== null && value <= 0)],
    ['none', 'failed or removed', has((value) => value === null)],
    ['line', 'pending', table.size < columnsOf(table).length * table.document.attempts],
  ] as const
  return (
    <div class="keys">
      <span>A column is a row, a cell an attempt: its {table.measure} is</span>
      {keys.map(
        ([tone, text, isUsed]) =>
          isUsed && (
            <span key={tone}>
              <i class="swatch" style={{ background: `var(--${tone})` }} />
              {text}
            </span>
          ),
      )}
    </div>
  )
}
