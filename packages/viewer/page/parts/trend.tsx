import type { JSX } from 'preact'

/** Values from 0 to 1 as a small line, whose label has the first and the last; nothing for fewer than two. */
export function Trend({
  values,
  text,
}: {
  values: readonly number[]
  text: (value: number) => string
}): JSX.Element | null {
  const [first, last] = [values[0], values.at(-1)]
  if (first === undefined || last === undefined || values.length < 2) return null
  const [low, high] = [Math.min(0, ...values), Math.max(1, ...values)]
  const points = values.map((value, at) => {
    const x = (at / (values.length - 1)) * 118 + 1
    return `${x.toFixed(1)},${(21 - ((value - low) / (high - low)) * 20).toFixed(1)}`
  })
  return (
    <svg
      class="series first trend"
      width="120"
      height="22"
      role="img"
      aria-label={`from ${text(first)} to ${text(last)}`}
    >
      <polyline points={points.join(' ')} />
    </svg>
  )
}
