import { points, signed, type FacetChange } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import { ticksOf } from '../parts/scale.ts'

/** Maximum entries of a list, half from each end. */
const maxShown = 16

/** The smallest change that may fill the width. */
const minScale = 0.05

/** Changes in points with their intervals, one above the other, around a line for no change. */
export function Forest({
  title,
  list,
}: {
  title: string
  list: readonly FacetChange[]
}): JSX.Element {
  const shown =
    list.length <= maxShown ? list : [...list.slice(0, maxShown / 2), ...list.slice(-maxShown / 2)]
  const reach = shown.map(({ difference: { value, ci95 } }) =>
    Math.max(...(ci95 ?? [value ?? 0]).map(Math.abs)),
  )
  const scale = Math.max(minScale, ...reach)
  return (
    <section class="card" aria-label={title}>
      <h2>{title}, with 95 % intervals</h2>
      {shown.map((change) => (
        <ForestLine key={change.value} change={change} scale={scale} />
      ))}
      <Axis scale={scale} />
      {shown.length < list.length && (
        <p class="dim">{list.length - shown.length} in between are not shown.</p>
      )}
    </section>
  )
}

/** The place of a share. Per cent of the width. */
function placeOf(share: number, scale: number): number {
  return 50 + (46 * share) / scale
}

/** Points below the changes: the ends, and 0 in the middle. */
function Axis({ scale }: { scale: number }): JSX.Element {
  const end = ticksOf(0, scale, 2).findLast((tick) => tick <= scale) ?? scale
  return (
    <div class="forest scale" aria-hidden="true">
      <span />
      <span class="ticks">
        {[-end, 0, end].map((tick) => (
          <span key={tick} style={{ left: `${placeOf(tick, scale)}%` }}>
            {signed(100 * tick, 0)}
          </span>
        ))}
      </span>
      <span class="change">points</span>
    </div>
  )
}

function ForestLine({ change, scale }: { change: FacetChange; scale: number }): JSX.Element {
  const { difference, verdict } = change
  const value = difference.value ?? 0
  const x = (share: number): number => placeOf(share, scale)
  const [low, high] = difference.ci95 ?? [value, value]
  const tone = { better: ' up', worse: ' down', none: '', unknown: '' }[verdict.tone]
  return (
    <div class={`forest${tone}`} title={`${change.value}: ${verdict.lead}${verdict.rest}`}>
      <span class="name cut">{change.value}</span>
      <svg height="16" viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">
        <line class="axis" x1="50" x2="50" y1="0" y2="16" vector-effect="non-scaling-stroke" />
        <line
          class="range"
          x1={x(low)}
          x2={x(high)}
          y1="8"
          y2="8"
          vector-effect="non-scaling-stroke"
        />
        <line
          class="centre"
          x1={x(value)}
          x2={x(value)}
          y1="3"
          y2="13"
          vector-effect="non-scaling-stroke"
        />
      </svg>
      <span class="change">
        {signed(100 * value)}
        {difference.ci95 !== null && ` ± ${points((high - low) / 2)}`}
      </span>
    </div>
  )
}
