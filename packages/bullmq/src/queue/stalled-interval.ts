/**
 * What BullMQ is told so that it looks for jobs without a lock at least every `mostMs`. It lets nobody look
 * again before its interval is over, by the clock of Redis; about one look in ten comes a moment too
 * early for that, does nothing, and the next is an interval later.
 */
export function stalledIntervalFor(mostMs: number): number {
  return Math.ceil(mostMs / 2)
}
