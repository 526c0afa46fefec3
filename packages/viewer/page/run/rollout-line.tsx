import type { RunTable } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import { duration, oneLine, rewardText, thousands, unknown } from '../format.ts'
import { Dots, toneOf } from '../parts/dot.tsx'
import { Signs } from '../parts/signs.tsx'

interface RolloutLineProps {
  readonly table: RunTable
  readonly item: number
  /** Pixels. */
  readonly top: number
  readonly isSelected: boolean
  /** Whether the line above is of the same row. */
  readonly isSameRow: boolean
  /** Whether there is room for the left columns only. */
  readonly short: boolean
  /** The least and the greatest value that the bar shows. */
  readonly range: readonly [number, number]
  readonly onPick: (item: number) => void
}

/** The id of the line of an item, for screen readers. */
export function lineId(item: number): string {
  return `item-${item}`
}

/** A rollout. */
export function RolloutLine(props: RolloutLineProps): JSX.Element {
  const { table, item, top, isSelected, isSameRow, short, range, onPick } = props
  const { columns } = table.document
  const value = table.value(item)
  const group = table.group(item)
  const [facet] = Object.values(table.facets(group))
  const tokens = columns.completionTokens[item] ?? null
  return (
    <div
      id={lineId(item)}
      class={`line${isSameRow ? ' same' : ''}`}
      role="option"
      aria-selected={isSelected}
      style={{ top: `${top}px` }}
      onClick={() => onPick(item)}
    >
      <span class="row">
        <b>{columns.row[item]}</b>
        <span class="dim">.{(columns.attempt[item] ?? 0) + 1}</span>
      </span>
      {isSameRow ? <span /> : <Dots table={table} items={group.items} me={item} />}
      <span class="reward">
        <span>{rewardText(value)}</span>
        {!short && (
          <span class="track">
            <i class={toneOf(table, item)} style={{ width: `${100 * shareOf(value, range)}%` }} />
          </span>
        )}
      </span>
      <span class="text">
        {facet !== undefined && <em>{facet}</em>}
        {oneLine(columns.summary[item] ?? '')}
      </span>
      <Signs table={table} item={item} most={short ? 1 : 2} />
      {!short && (
        <>
          <span class="end">{columns.calls[item]}</span>
          <span class="end wide">{columns.toolCalls[item]}</span>
          <span class="end wide">{tokens === null ? unknown : thousands(tokens)}</span>
          <span class="end">{duration(columns.durationMs[item] ?? 0)}</span>
        </>
      )}
    </div>
  )
}

/** Of the bar; the least value still shows a little of it. */
function shareOf(value: number | null, [least, most]: readonly [number, number]): number {
  if (value === null) return 0
  return Math.max(0.04, Math.min(1, (value - least) / (most - least)))
}
