/**
 * What a row teaches under group-normalised RL (DAPO, arXiv 2503.14476), where equal rewards have no
 * advantage. `signal`: its rewards are not all equal. Otherwise nothing: `always` when all attempts
 * passed, `never` when the rewards are 0 or less, or there is none, and `flat` for other equal rewards,
 * such as half a reward each, or passes beside attempts without a reward.
 */
export type GroupKind = 'never' | 'signal' | 'flat' | 'always'

/** The attempts at one row. */
export interface RowGroup {
  /** Position in the dataset file, from 0. */
  readonly row: number
  /** The row in other datasets. */
  readonly key: string
  /** Its place in the rows of the document. */
  readonly place: number
  /** Places of its items, by attempt. */
  readonly items: readonly number[]
  /** Items that count: all but skipped ones. */
  readonly ended: number
  /** Those with a reward. */
  readonly graded: number
  /** Those that passed. */
  readonly passed: number
  /** Of the rewards; null for none. */
  readonly mean: number | null
  /** Sample standard deviation of the rewards; null for fewer than two. */
  readonly spread: number | null
  readonly kind: GroupKind
}

/**
 * What the rewards of a row say; equal means exactly equal, because rounding makes tiny deviations.
 *
 * @param isSure - whether all of its attempts passed
 */
export function describeRewards(
  rewards: readonly number[],
  isSure: boolean,
): Pick<RowGroup, 'mean' | 'spread' | 'kind'> {
  const [first] = rewards
  if (first === undefined) return { mean: null, spread: null, kind: 'never' }
  if (rewards.every((reward) => reward === first)) {
    const kind = isSure ? 'always' : first > 0 ? 'flat' : 'never'
    return { mean: first, spread: rewards.length < 2 ? null : 0, kind }
  }
  let sum = 0
  for (const reward of rewards) sum += reward
  const mean = sum / rewards.length
  let squares = 0
  for (const reward of rewards) squares += (reward - mean) ** 2
  return { mean, spread: Math.sqrt(squares / (rewards.length - 1)), kind: 'signal' }
}
