import { formatCount, formatShare } from '@osmosis/eval/analysis'

/** Text for an unknown value. */
export const unknown = '–'

/** A share as per cent. */
export function percent(share: number | null, digits = 1): string {
  return share === null || !Number.isFinite(share) ? unknown : formatShare(share, digits)
}

/** An interval of shares with a larger half width is shown as "few rows". */
const vagueHalf = 0.4

/** The uncertainty of a share is; a bound where all values are the same. */
export function margin(
  share: number,
  interval: readonly [low: number, high: number],
  text: (share: number) => string,
): string {
  const [low, high] = interval
  return (high - low) / 2 < vagueHalf ? intervalText(share, interval, text) : 'few rows'
}

/** The uncertainty of a value is; a bound where all values are the same. */
export function intervalText(
  value: number,
  [low, high]: readonly [low: number, high: number],
  text: (value: number) => string,
): string {
  if (low === value) return `≤ ${text(high)}`
  if (high === value) return `≥ ${text(low)}`
  return `± ${text((high - low) / 2)}`
}

export function compact(count: number | null): string {
  if (count === null) return unknown
  if (count >= 1e6) return `${(count / 1e6).toFixed(1)} M`
  return count >= 1e4 ? `${(count / 1e3).toFixed(0)} k` : formatCount(Math.round(count))
}

/** A short but accurate reward. */
export function rewardText(reward: number | null): string {
  if (reward === null) return unknown
  if (Number.isInteger(reward)) return String(reward).replace('-', '−')
  const text = Math.abs(reward) >= 1000 ? reward.toPrecision(3) : reward.toFixed(2)
  return text.replace('-', '−')
}

export function duration(milliseconds: number): string {
  if (milliseconds < 100) return `${Math.round(milliseconds)} ms`
  if (milliseconds < 9_950) return `${(milliseconds / 1000).toFixed(1)} s`
  if (milliseconds < 120_000) return `${Math.round(milliseconds / 1000)} s`
  return `${(milliseconds / 60_000).toFixed(1)} min`
}

/** When a run started: the time of today, the day of this year, else the date; in the time zone of the reader. */
export function startText(iso: string, now = new Date()): string {
  const start = new Date(iso)
  if (Number.isNaN(start.getTime())) return iso
  const time = start.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })
  if (start.toDateString() === now.toDateString()) return time
  const isThisYear = start.getFullYear() === now.getFullYear()
  const day = start.toLocaleDateString('en-GB', {
    day: 'numeric',
    month: 'short',
    ...(isThisYear ? {} : { year: 'numeric' }),
  })
  return isThisYear ? `${day}, ${time}` : day
}

/** Makes control characters and marks of text direction visible, which could disguise the text. */
export function withoutControls(text: string): string {
  return text.replaceAll(/(?![\t\n\r])\p{Cc}|[\u202a-\u202e\u2066-\u2069]/gu, (control) => {
    const code = control.codePointAt(0) ?? 0
    // Unicode has symbols for the first 32.
    return code < 0x20
      ? String.fromCodePoint(0x2400 + code)
      : `⟨U+${code.toString(16).toUpperCase()}⟩`
  })
}

/** One line, without control characters and marks of text direction. */
export function oneLine(text: string): string {
  return text
    .replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ')
    .replaceAll(/[\u202a-\u202e\u2066-\u2069]/gu, '')
}
