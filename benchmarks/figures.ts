/** The figure at a share of all, when they are sorted: 0.5 is the median. NaN without figures. */
export function quantile(figures: ArrayLike<number>, share: number): number {
  const sorted = Float64Array.from(figures).toSorted()
  return sorted[Math.round(share * (sorted.length - 1))] ?? Number.NaN
}

/** The upper one of the two in the middle, when their number is even. */
export function median(figures: ArrayLike<number>): number {
  return quantile(figures, 0.5)
}

export function rounded(figure: number, digits = 2): number {
  return Math.round(figure * 10 ** digits) / 10 ** digits
}
