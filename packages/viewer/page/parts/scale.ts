/** Converts between values and pixels. */
export interface LinearScale {
  /** Pixels of a value. */
  readonly at: (value: number) => number
  /** The value at a pixel. */
  readonly invert: (pixel: number) => number
}

/** A linear scale. */
export function scaleOf(
  [from, to]: readonly [from: number, to: number],
  [start, end]: readonly [start: number, end: number],
): LinearScale {
  const size = to - from || 1
  return {
    at: (value) => start + ((value - from) / size) * (end - start),
    invert: (pixel) => from + ((pixel - start) / (end - start || 1)) * size,
  }
}

/** Round numbers that span a range, about `count` of them. */
export function ticksOf(low: number, high: number, count: number): number[] {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1]
  const size = high - low || Math.abs(high) || 1
  const power = 10 ** Math.floor(Math.log10(size / count))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => size / each <= count)
  const width = step ?? 10 * power
  const ticks: number[] = []
  const first = Math.floor(low / width + 1e-9)
  const last = Math.max(first + 1, Math.ceil(high / width - 1e-9))
  for (let tick = first; tick <= last; tick++) ticks.push(Number((tick * width).toPrecision(12)))
  return ticks
}
