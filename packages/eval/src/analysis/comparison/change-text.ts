import { formatCount, formatReward, formatShare, points, unitText } from '../figures/number-text.ts'
import { type Estimate, halfWidth } from '../statistics/estimate.ts'
import type { BehaviourChange } from './compare-runs.ts'

/** `+3.4 points ± 1.5`; empty where nothing can be compared. */
export function changeText(difference: Estimate, scale: 'share' | 'plain'): string {
  return scale === 'share'
    ? withMargin(difference, points, ' points')
    : withMargin(difference, formatReward)
}

/** A change of behaviour as texts; the change is empty where there is none. */
export function behaviourTexts({ unit, before, after, difference }: BehaviourChange): {
  readonly before: string
  readonly after: string
  readonly change: string
  /** Whether its 95 % interval is on one side of 0. */
  readonly isSure: boolean
} {
  const text = amountText[unit]
  const half = halfWidth(difference)
  const change = unit === 'share' ? changeText(difference, 'share') : withMargin(difference, text)
  return {
    before: text(before),
    after: text(after),
    change: difference.value === 0 ? '' : change,
    isSure: half !== null && Math.abs(difference.value ?? 0) > half,
  }
}

const amountText: Readonly<Record<BehaviourChange['unit'], (value: number) => string>> = {
  share: (value) => formatShare(value),
  usd: (value) => unitText(value, 'dollars'),
  seconds: (value) => `${value.toFixed(1)} s`,
  count: (value) => (value < 99.95 ? value.toFixed(1) : formatCount(Math.round(value))),
}

function withMargin(difference: Estimate, text: (value: number) => string, unit = ''): string {
  const { value } = difference
  if (value === null) return ''
  const half = halfWidth(difference)
  const margin = half === null ? '' : ` ± ${text(half)}`
  return `${value < 0 ? '−' : '+'}${text(Math.abs(value))}${unit}${margin}`
}
