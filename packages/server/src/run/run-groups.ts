import type { RolloutGroup } from '@osmosis/core'

import type { RunRouteOptions } from './run-options.ts'

/** Groups are counted until so many others have come. */
const mostGroups = 10_000

/** Counts the attempts of groups, which rows name in a column and no request numbers. */
export class RunGroups {
  readonly #options: RunRouteOptions
  /** By the value of the column, the one that came last at the end. */
  readonly #attempts = new Map<string, number>()

  constructor(options: RunRouteOptions) {
    this.#options = options
  }

  /** The group that a row is the next attempt of; undefined when it belongs to none. */
  next(row: Readonly<Record<string, unknown>>): RolloutGroup | undefined {
    const { groupColumn, groupSize: size } = this.#options
    const value = groupColumn === undefined ? undefined : row[groupColumn]
    if (typeof value !== 'string' && typeof value !== 'number') return undefined
    const name = String(value)
    const before = this.#attempts.get(name) ?? 0
    this.#attempts.delete(name)
    this.#attempts.set(name, before + 1)
    const [oldest] = this.#attempts.keys()
    if (this.#attempts.size > mostGroups && oldest !== undefined) this.#attempts.delete(oldest)
    if (size === undefined) return { id: name, attempt: before + 1 }
    return { id: `${name}/${Math.floor(before / size) + 1}`, attempt: (before % size) + 1, size }
  }
}
