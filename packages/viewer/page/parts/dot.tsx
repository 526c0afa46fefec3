import type { RunTable } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import { rewardText } from '../format.ts'

/** An item of a run. */
export interface ItemProps {
  readonly table: RunTable
  readonly item: number
}

/** The style of a value, which has a shape of its own beside its colour. */
export type Tone = 'pass' | 'mid' | 'fail' | 'none'

export function toneOf(table: RunTable, item: number): Tone {
  const value = table.value(item)
  if (value === null) return 'none'
  if (table.passed(item)) return 'pass'
  return value <= 0 ? 'fail' : 'mid'
}

/** The value of an item: passes are filled, others are rings. */
export function Dot({ table, item, isMe = false }: ItemProps & { isMe?: boolean }): JSX.Element {
  return <span class={`dot ${toneOf(table, item)}${isMe ? ' me' : ''}`} />
}

/** Maximum attempts that are shown. */
const maxDots = 8

/** The width of the attempts at any row of these runs, at least as wide as a title. Pixels at the usual size of text. */
export function dotsWidth(tables: readonly RunTable[], title: number): number {
  let most = 0
  for (const { groups } of tables) {
    for (const { items } of groups) most = Math.max(most, items.length)
  }
  const rest = most > maxDots ? 10 + 8 * String(most - maxDots).length : 0
  return Math.max(title, 13 * Math.min(most, maxDots) + rest)
}

/** The attempts at a row. */
export function Dots({
  table,
  items,
  me,
}: {
  table: RunTable
  items: readonly number[]
  me?: number
}): JSX.Element {
  // The marked one is always among them.
  const start = Math.max(0, Math.min(items.length - maxDots, items.indexOf(me ?? -1) - maxDots + 1))
  const shown = items.length <= maxDots ? items : items.slice(start, start + maxDots)
  const rest = items.length - shown.length
  const values = items.map((item) => rewardText(table.value(item))).join(', ')
  return (
    <span class="dots" role="img" aria-label={`Rewards ${values}`}>
      {shown.map((item) => (
        <Dot key={item} table={table} item={item} isMe={item === me} />
      ))}
      {rest > 0 && <span class="more">+{rest}</span>}
    </span>
  )
}
