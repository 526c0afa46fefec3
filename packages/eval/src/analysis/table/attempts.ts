import type { ItemEvent } from '../records/item-event.ts'
import { statusCodes } from './document-writer.ts'

/**
 * The training signal of a row under group-normalised RL (DAPO, arXiv 2503.14476), where rewards that are equal but for
 * rounding have no advantage. `signal`: its rewards are not all equal. The other kinds have no signal. `always`: all
 * attempts passed. `never`: all rewards are 0 or less, or there is none. `flat`: other equal rewards, such
 * as 0.5 each, or passes beside attempts without a reward.
 */
export type GroupKind = 'never' | 'signal' | 'flat' | 'always'

/** What the attempts at one row came to. All figures about passes and values are computed from these. */
export interface RowAttempts {
  /** Items that are not skipped. */
  readonly ended: number
  /** Those with a value. */
  readonly graded: number
  /** Those that passed. */
  readonly passed: number
  /** Of the values; null for none. */
  readonly mean: number | null
  /** Sample standard deviation of the values; null for fewer than two. */
  readonly spread: number | null
  readonly kind: GroupKind
}

/** Whether an item is included in figures: not if all its samples were removed from training. */
export function isCounted(statusCode: number | undefined): boolean {
  return statusCode !== statusCodes.skipped
}

/** Whether an item passes. One without a value does not. */
export function isPass(value: number | null, threshold: number): boolean {
  return value !== null && value >= threshold
}

/**
 * What a run is measured by: `reward`, or in a run that has scores but no rewards, the first eval function
 * that gave one.
 *
 * @param hasValues - whether an item has a value by a measure
 */
export function chooseMeasure(
  scoreNames: readonly string[],
  hasValues: (measure: string) => boolean,
): string {
  return ['reward', ...scoreNames].find(hasValues) ?? 'reward'
}

/** More than what adding up the same parts in another order changes: 0.1 + 0.2 is 0.30000000000000004. */
const rounding = 1e-12

/** Whether rewards are equal but for rounding, so that none is better than another. */
export function areEqualRewards(rewards: readonly number[]): boolean {
  let [lowest, highest] = [Infinity, -Infinity]
  for (const reward of rewards) {
    lowest = Math.min(lowest, reward)
    highest = Math.max(highest, reward)
  }
  return !(highest - lowest > rounding * Math.max(1, Math.abs(lowest), Math.abs(highest)))
}

/** @param values - of the items that are included in figures; null for one without a value */
export function describeAttempts(
  values: readonly (number | null)[],
  threshold: number,
): RowAttempts {
  const known = values.filter((value) => value !== null)
  const passed = known.filter((value) => isPass(value, threshold)).length
  const counts = { ended: values.length, graded: known.length, passed }
  const [first] = known
  if (first === undefined) return { ...counts, mean: null, spread: null, kind: 'never' }
  if (areEqualRewards(known)) {
    const kind = passed === values.length ? 'always' : first > rounding ? 'flat' : 'never'
    return { ...counts, mean: first, spread: known.length < 2 ? null : 0, kind }
  }
  let sum = 0
  for (const value of known) sum += value
  const mean = sum / known.length
  let squares = 0
  for (const value of known) squares += (value - mean) ** 2
  const spread = Math.sqrt(squares / (known.length - 1))
  return { ...counts, mean, spread, kind: 'signal' }
}

/** The value of an item by a measure. */
export function valueOf({ reward, scores }: ItemEvent, measure: string): number | null {
  return measure === 'reward' ? reward : (scores?.[measure] ?? null)
}

/** The items that are included in figures. */
export function countedItems(items: readonly ItemEvent[]): ItemEvent[] {
  return items.filter(({ status }) => isCounted(statusCodes[status]))
}

/** The rows of items that are included in figures, in the order in which they first occur. */
export function attemptsByRow(
  counted: readonly ItemEvent[],
  measure: string,
  threshold: number,
): RowAttempts[] {
  const rows = Map.groupBy(counted, ({ source_row_index: row }) => row)
  return Array.from(rows.values(), (row) =>
    describeAttempts(
      row.map((item) => valueOf(item, measure)),
      threshold,
    ),
  )
}
