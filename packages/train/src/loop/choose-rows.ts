import { createHash } from 'node:crypto'

import type { DatasetRow } from '@osmosis/eval'
import type { StepRecord } from '@osmosis/eval/analysis'

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
    return Array.from({ length: size }, (_, at) => {
      const epoch = Math.floor((first + at) / rowCount)
      return epochOrder(rowCount, size, seed, epoch)[(first + at) % rowCount] ?? 0
    })
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

/** Positions of the rows whose attempts agreed when they were last tried, for {@link RowChoice.settled}. */
export function settledBefore(
  steps: readonly Pick<StepRecord, 'rows' | 'settledRows'>[],
  rows: readonly DatasetRow[],
): ReadonlySet<number> {
  const settled = new Set<number>()
  for (const { rows: tried, settledRows: agreed } of steps) {
    for (const row of tried) settled.delete(row)
    for (const row of agreed) settled.add(row)
  }
  return new Set(rows.flatMap(({ sourceRowIndex: row }, at) => (settled.has(row) ? [at] : [])))
}

let lastOrders: { readonly key: string; readonly orders: number[][] } | undefined

/**
 * The order of the rows in an epoch. A step that begins in the epoch before has no row twice: the rows that it took there
 * come after those that it takes here.
 *
 * @param size - rows in a step
 */
function epochOrder(
  rowCount: number,
  size: number,
  seed: number,
  epoch: number,
): readonly number[] {
  const key = `${rowCount}/${size}/${seed}`
  if (lastOrders?.key !== key) lastOrders = { key, orders: [] }
  const { orders } = lastOrders
  for (let next = orders.length; next <= epoch; next += 1) {
    const rows = Array.from({ length: rowCount }, (_, row) => row)
    const order = shuffled(rows, randomNumbers(`epoch/${seed}/${next}`))
    const taken = (next * rowCount) % size
    const before = new Set(taken === 0 ? [] : orders[next - 1]?.slice(-taken))
    const first = taken === 0 ? [] : order.filter((row) => !before.has(row)).slice(0, size - taken)
    orders.push([...first, ...order.filter((row) => !first.includes(row))])
  }
  return orders[epoch] ?? []
}

/** Numbers from 0 to below 1, the same for the same seed in every process (mulberry32). */
function randomNumbers(seed: string): () => number {
  let state = createHash('sha256').update(seed).digest().readUInt32BE()
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The items in an order that the random numbers decide. */
function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const left = [...items]
  const order: T[] = []
  while (left.length > 0) order.push(...left.splice(Math.floor(random() * left.length), 1))
  return order
}
