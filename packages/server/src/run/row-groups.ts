import type { RolloutGroup } from '@osmosis/core'
import { WrittenNumber } from '@osmosis/protocol/wire'

/** Maximum number of groups whose attempts are counted. */
const maxGroups = 10_000

/** How rows are grouped. */
export interface RowGroupOptions {
  /**
   * Column of the row that names its group: rollouts with the same value are attempts of one group, in
   * the order of their requests. Default: they belong to no group.
   */
  readonly groupColumn?: string | undefined
  /**
   * Attempts of a group; after this many the next group with its own id starts. Default: unknown, and all
   * rows with the same value are one group.
   */
  readonly groupSize?: number | undefined
}

/** Counts the attempts of groups, because trainers do not number them. */
export class RowGroups {
  readonly #options: RowGroupOptions
  /** By the value of the column, the most recent last. */
  readonly #attempts = new Map<string, number>()

  constructor(options: RowGroupOptions) {
    this.#options = options
  }

  /** The value of the column; undefined when the row belongs to no group. */
  nameOf(row: Readonly<Record<string, unknown>>): string | undefined {
    const { groupColumn } = this.#options
    const value = groupColumn === undefined ? undefined : row[groupColumn]
    if (value instanceof WrittenNumber) return value.source
    return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined
  }

  /** The group and attempt of a row; undefined when it belongs to no group. */
  next(row: Readonly<Record<string, unknown>>): RolloutGroup | undefined {
    const { groupSize: size } = this.#options
    const name = this.nameOf(row)
    if (name === undefined) return undefined
    const before = this.#attempts.get(name) ?? 0
    this.#attempts.delete(name)
    this.#attempts.set(name, before + 1)
    const [oldest] = this.#attempts.keys()
    if (this.#attempts.size > maxGroups && oldest !== undefined) this.#attempts.delete(oldest)
    if (size === undefined) return { id: name, attempt: before + 1 }
    return { id: `${name}/${Math.floor(before / size) + 1}`, attempt: (before % size) + 1, size }
  }
}
