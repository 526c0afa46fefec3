/** A quantile of sorted values by linear interpolation (type 7 of Hyndman and Fan 1996); null for none. */
export function quantile(sorted: ArrayLike<number>, share: number): number | null {
  const position = (sorted.length - 1) * share
  const low = sorted[Math.floor(position)]
  const high = sorted[Math.ceil(position)]
  if (low === undefined || high === undefined) return null
  return low + (high - low) * (position - Math.floor(position))
}
