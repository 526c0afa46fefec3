import type { ItemEvent } from '../analysis/item-event.ts'
import { formatDollars } from '../analysis/number-text.ts'

/** What rollouts have cost. */
export interface RunCost {
  /** US dollars, of those whose cost is known. */
  readonly usd: number
  /** Rollouts that asked a model, at a cost that is not known. */
  readonly unknown: number
}

type CostlyItem = Pick<ItemEvent, 'cost_usd' | 'calls'>

/** Null when nothing is known about the cost of any of them. */
export function costOfItems(items: Iterable<CostlyItem>): RunCost | null {
  const cost = { usd: 0, unknown: 0 }
  let isKnown = false
  for (const { cost_usd: usd, calls } of items) {
    if (usd !== null) {
      cost.usd += usd
      isKnown = true
    } else if (calls > 0) cost.unknown += 1
  }
  return isKnown ? cost : null
}

/** Keeps count of what a run costs, against what it may. */
export class CostBudget {
  readonly #maxUsd: number
  #usd: number
  #isUnknown = false

  /** @param earlier - what items that ended before have cost */
  constructor(maxUsd: number, earlier: RunCost | null) {
    this.#maxUsd = maxUsd
    this.#usd = earlier?.usd ?? 0
  }

  add({ cost_usd: usd, calls }: CostlyItem): void {
    if (usd !== null) this.#usd += usd
    else if (calls > 0) this.#isUnknown = true
  }

  /** Why no more rollouts may be started; undefined as long as they may. */
  get verdict(): string | undefined {
    if (this.#usd >= this.#maxUsd) {
      return `The run reached its limit of ${formatDollars(this.#maxUsd)}: at ${formatDollars(this.#usd)} no more rollouts were started. Raise --max-cost to continue with it.`
    }
    return this.#isUnknown
      ? 'What a rollout has cost is not known, so no budget can be kept. Name the price of the model as [prices."<model>"] in osmosis.toml, or leave out --max-cost.'
      : undefined
  }
}
