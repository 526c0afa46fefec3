import {
  fewestRows,
  points,
  formatReward,
  formatShare,
  halfWidth,
  type Estimate,
} from '@osmosis/eval/analysis'

/** How a figure is written: shares in per cent, others as plain numbers. */
export type Scale = 'share' | 'plain'

/** `53.7 %`, `0.569`; `none` for no value. */
export function valueText({ value }: Pick<Estimate, 'value'>, scale: Scale): string {
  if (value === null) return 'none'
  return scale === 'share' ? formatShare(value) : formatReward(value)
}

/** `between 51.5 and 55.9 %`; undefined without an interval. */
export function intervalText({ ci95, rows }: Estimate, scale: Scale): string | undefined {
  if (ci95 === null || rows < fewestRows) return undefined
  if (scale === 'plain') return `between ${formatReward(ci95[0])} and ${formatReward(ci95[1])}`
  // The formula can exceed the range of shares.
  const [low, high] = ci95.map((end) => formatShare(Math.min(1, Math.max(0, end))))
  return `between ${low?.replace(' %', '')} and ${high}`
}

/** `53.7 % ± 2.2`; where nothing or everything passed `100 % (at least 94.2)`. */
export function briefText(estimate: Estimate, scale: Scale): string {
  const { value, ci95, rows } = estimate
  const half = halfWidth(estimate)
  const text = valueText(estimate, scale)
  if (value === null || ci95 === null || half === null || rows < fewestRows) return text
  if (scale === 'plain') return `${text} ± ${formatReward(half)}`
  if (value === 0) return `${text} (at most ${points(ci95[1])})`
  if (value === 1) return `${text} (at least ${points(ci95[0])})`
  return `${text} ± ${points(half)}`
}

/** How long ago it was, from a time as ISO 8601. */
export function agoText(time: string, now = Date.now()): string {
  const minutes = Math.floor((now - Date.parse(time)) / 60_000)
  if (!Number.isFinite(minutes)) return time
  if (minutes < 1) return 'just now'
  if (minutes < 60) return `${minutes} min ago`
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ago`
  const days = Math.floor(minutes / (24 * 60))
  return days < 60 ? `${days} days ago` : time.slice(0, 10)
}
