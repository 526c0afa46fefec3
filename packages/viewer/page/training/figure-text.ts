import { driftText, type SeriesKey, type TrainingSeries } from '@osmosis/eval/analysis'

import { compact, duration, percent } from '../format.ts'

/** A value of a series in a table or beside a cursor. */
export function seriesText(
  { key, unit }: Pick<TrainingSeries, 'key' | 'unit'>,
  value: number,
): string {
  if (unit === 'share') return percent(value)
  if (unit === 'seconds') return duration(1000 * value)
  if (precise.has(key)) return value.toFixed(3)
  if (key === 'drift') return driftText(value)
  return value >= 100 ? compact(value) : value.toFixed(value >= 10 ? 0 : 1)
}

const precise: ReadonlySet<SeriesKey> = new Set(['reward', 'heldOutReward', 'entropy'])

/** A value on an axis. */
export function axisText(
  { key, unit }: Pick<TrainingSeries, 'key' | 'unit'>,
  value: number,
): string {
  if (unit === 'share') return percent(value, Number.isInteger(100 * value) ? 0 : 1)
  if (unit === 'seconds') return duration(1000 * value)
  if (key === 'drift') return driftText(value)
  return value >= 1000 ? compact(value) : String(value)
}
