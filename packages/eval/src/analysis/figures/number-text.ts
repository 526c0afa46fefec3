const grouped = new Intl.NumberFormat('en-US')

/** `1,234,567`. */
export function formatCount(count: number): string {
  return grouped.format(count)
}

/** `1 row`, `20 rows`. */
export function formatQuantity(count: number, noun: string, plural = `${noun}s`): string {
  return `${formatCount(count)} ${count === 1 ? noun : plural}`
}

/** A reward, with up to three decimals. */
export function formatReward(reward: number): string {
  return String(Number(reward.toFixed(3)))
}

/** `81.3 %`. */
export function formatShare(share: number, digits = 1): string {
  return `${points(share, digits)} %`
}

/** A share in points, without a unit: `2.2`. */
export function points(share: number, digits = 1): string {
  return (100 * share).toFixed(digits)
}

/** With a plus or a true minus; 0 without any. */
export function signed(value: number, digits = 1): string {
  const text = Math.abs(value).toFixed(digits)
  if (Number(text) === 0) return text
  return value < 0 ? `−${text}` : `+${text}`
}

const dollars = new Intl.NumberFormat('en-US', {
  style: 'currency',
  currency: 'USD',
  minimumSignificantDigits: 2,
  maximumSignificantDigits: 2,
  // Cents are shown as well, if they say more than two significant digits.
  roundingPriority: 'morePrecision',
})

/** With cents, and at least two significant digits: `$12.30`, `$0.0042`. */
export function formatDollars(usd: number): string {
  return dollars.format(usd)
}

/** `0.8 s`, `12.3 s`, `4 min 05 s`, `2 h 03 min`. */
export function formatDuration(durationMs: number): string {
  const seconds = durationMs / 1000
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`
  const whole = Math.round(seconds)
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`
  const minutes = Math.round(whole / 60)
  return `${Math.floor(minutes / 60)} h ${pad(minutes % 60)} min`
}

function pad(value: number): string {
  return String(value).padStart(2, '0')
}

/** The unit of a figure; a share is written in per cent. */
export type FigureUnit = 'reward' | 'share' | 'count' | 'tokens' | 'seconds' | 'dollars'

/** `53.7 %`, `0.569`, `1,204`, `28 ms`, `$0.0042`. */
export function unitText(value: number, unit: FigureUnit): string {
  switch (unit) {
    case 'reward':
      return formatReward(value)
    case 'share':
      return formatShare(value)
    case 'count':
    case 'tokens':
      return formatCount(Math.round(value))
    case 'seconds':
      return value < 0.9995 ? `${Math.round(1000 * value)} ms` : formatDuration(1000 * value)
    case 'dollars':
      return formatDollars(value)
  }
}
