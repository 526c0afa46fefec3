import { randomNumbers, shuffled } from './random.ts'

/** What decides which rows a step has. */
export interface RowChoice {
  /** Number of rows of the dataset. */
  readonly rowCount: number
  /** Rows in a step. */
  readonly rowsPerStep: number
  readonly seed: number
  /** From 1. */
  readonly step: number
  /**
   * Rows whose attempts all had the same reward when they were last tried. With a curriculum they are drawn a
   * quarter as often. Default: none.
   */
  readonly settled?: ReadonlySet<number>
}

/** How much less often a settled row is drawn. */
const settledWeight = 0.25

/**
 * The rows of a step, as positions in the dataset. Without settled rows, each epoch is a new order of all rows, and
 * steps take them one after the other, so that all rows are used equally often.
 */
export function chooseRows(choice: RowChoice): number[] {
  const { rowCount, rowsPerStep, seed, step, settled } = choice
  const size = Math.min(rowsPerStep, rowCount)
  if (settled === undefined || settled.size === 0) {
    const first = (step - 1) * size
    return Array.from({ length: size }, (_, at) => rowOfEpoch(first + at, rowCount, seed))
  }
  // Weighted sampling without replacement: the largest keys of u^(1/weight) (Efraimidis and Spirakis).
  const random = randomNumbers(`rows/${seed}/${step}`)
  const keys = Array.from({ length: rowCount }, (_, row) => ({
    row,
    key: random() ** (1 / (settled.has(row) ? settledWeight : 1)),
  }))
  const drawn = keys.toSorted((a, b) => b.key - a.key).slice(0, size)
  return drawn.map(({ row }) => row)
}

function rowOfEpoch(position: number, rowCount: number, seed: number): number {
  const epoch = Math.floor(position / rowCount)
  return epochOrder(rowCount, seed, epoch)[position % rowCount] ?? 0
}

let lastOrder: { readonly key: string; readonly order: readonly number[] } | undefined

function epochOrder(rowCount: number, seed: number, epoch: number): readonly number[] {
  const key = `${rowCount}/${seed}/${epoch}`
  if (lastOrder?.key !== key) {
    const rows = Array.from({ length: rowCount }, (_, row) => row)
    lastOrder = { key, order: shuffled(rows, randomNumbers(`epoch/${seed}/${epoch}`)) }
  }
  return lastOrder.order
}
