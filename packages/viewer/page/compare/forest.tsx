import type { FacetChange } from '@osmosis/eval/analysis'
import type { JSX } from 'preact'

import { points, signed } from '../format.ts'

/** As many of a list are shown, from the best and from the worst. */
const mostShown = 16

/** A change of less than so many points fills no more than its share of the width. */
const leastScale = 0.05

/** Changes with their intervals, one above the other. */
export function Forest({
  title,
  list,
}: {
  title: string
  list: readonly FacetChange[]
}): JSX.Element {
  const shown =
    list.length <= mostShown
      ? list
      : [...list.slice(0, mostShown / 2), ...list.slice(-mostShown / 2)]
  const reach = shown.map(({ difference: { value, ci95 } }) =>
    Math.max(...(ci95 ?? [value ?? 0]).map(Math.abs)),
  )
  const scale = Math.max(leastScale, ...reach)
  return (
    <section class="card" aria-label={title}>
      <h2>{title}, with 95 % intervals</h2>
      {shown.map((change) => (
        <ForestLine key={change.value} change={change} scale={scale} />
      ))}
      {shown.length < list.length && (
        <p class="dim">{list.length - shown.length} in between are not shown.</p>
      )}
    </section>
  )
}

function ForestLine({ change, scale }: { change: FacetChange; scale: number }): JSX.Element {
  const { difference, verdict } = change
  const value = difference.value ?? 0
  const x = (share: number): number => 50 + (46 * share) / scale
  const [low, high] = difference.ci95 ?? [value, value]
  const tone = { better: ' up', worse: ' down', none: '', unknown: '' }[verdict.tone]
  return (
    <div class={`forest${tone}`} title={`${change.value}: ${verdict.lead}${verdict.rest}`}>
      <span class="name">{change.value}</span>
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
