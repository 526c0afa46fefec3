import { errorMessage } from '@osmosis/core'

import { formatDollars, formatCount } from '../analysis/figures/number-text.ts'
import { thrownAt } from '../analysis/records/error-text.ts'
import { type ItemEvent, itemKey, type ItemReference } from '../analysis/records/item-event.ts'
import { toSummary } from '../analysis/trajectory/trajectory-facts.ts'

/** Stops an evaluation; the first reason counts. */
export class StopSwitch {
  readonly #cancel = new AbortController()
  readonly #outer: AbortSignal | undefined
  readonly #onOuterAbort = (): void => this.cancel(this.#outer?.reason)
  #reason: string | undefined

  /** Cancels when `outer` aborts, until {@link release} is called. */
  constructor(outer: AbortSignal | undefined) {
    this.#outer = outer
    if (outer?.aborted) this.cancel(outer.reason)
    else outer?.addEventListener('abort', this.#onOuterAbort)
  }

  /** Why no further item is started; undefined while items are started. */
  get reason(): string | undefined {
    return this.#reason
  }

  /** Aborts when rollouts in progress must be cancelled too. */
  get signal(): AbortSignal {
    return this.#cancel.signal
  }

  /** Starts no further item. */
  halt(cause: unknown): void {
    this.#reason ??= errorMessage(cause)
  }

  /** Starts no further item and cancels those in progress. */
  cancel(cause: unknown): void {
    this.halt(cause)
    this.#cancel.abort(cause)
  }

  release(): void {
    this.#outer?.removeEventListener('abort', this.#onOuterAbort)
  }
}

/** The cost of rollouts. */
export interface RunCost {
  /** US dollars, of rollouts with a known cost. */
  readonly usd: number
  /** Rollouts that called a model at an unknown cost. */
  readonly unknown: number
}

type CostlyItem = Pick<ItemEvent, 'cost_usd' | 'calls'>

/** Null when no cost is known. */
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

/** Compares the cost of a run with its limit. */
export class CostBudget {
  readonly #maxUsd: number
  #usd: number
  #isUnknown = false

  /** @param earlier - the cost of items of earlier starts */
  constructor(maxUsd: number, earlier: RunCost | null) {
    this.#maxUsd = maxUsd
    this.#usd = earlier?.usd ?? 0
  }

  add({ cost_usd: usd, calls }: CostlyItem): void {
    if (usd !== null) this.#usd += usd
    else if (calls > 0) this.#isUnknown = true
  }

  /** Why no more rollouts may be started; undefined while they may. */
  get verdict(): string | undefined {
    if (this.#usd >= this.#maxUsd) {
      return `The run reached its limit of ${formatDollars(this.#maxUsd)}: at ${formatDollars(this.#usd)} no more rollouts were started. Raise --max-cost to continue.`
    }
    return this.#isUnknown
      ? 'The cost of a rollout is unknown, so the limit cannot be checked. Set the price of the model as [prices."<model>"] in osmosis.toml, or omit --max-cost.'
      : undefined
  }
}

/** When this many first items of a run all fail the same way, the run stops. */
const firstItems = 20

/** How a user continues in spite of failures, at the end of the reason why a run stopped. */
interface FailureAdvice {
  readonly raise: string
  readonly continue: string
}

type EndedItem = ItemReference & Pick<ItemEvent, 'status' | 'error_type' | 'error_message'>

/** A way in which items fail. */
interface FailureKind {
  items: number
}

/** Compares the failures of a run with their limit. */
export class FailureLimit {
  readonly #max: number | undefined
  readonly #kinds = new Map<string, FailureKind>()
  /** How each item failed, by `itemKey`; undefined for one that did not. */
  readonly #items = new Map<string, FailureKind | undefined>()
  #failed = 0
  #latest = ''
  readonly #advice: FailureAdvice | undefined

  /**
   * @param limit - failures that stop the run: their number, or below 1 a share of all items; false for no
   * limit. Default: stop when the first 20 items all fail the same way
   * @param total - items of the run
   */
  constructor(limit: number | false | undefined, total: number, advice: FailureAdvice | undefined) {
    this.#advice = advice
    if (limit !== undefined) {
      this.#max = limit === false ? Infinity : Math.ceil(limit < 1 ? limit * total : limit)
    }
  }

  /** Counts an item that has ended; one that ended again counts once, as it ended last. */
  add(item: EndedItem): void {
    const { status, error_message: message, error_type: type } = item
    const before = this.#items.get(itemKey(item))
    if (before !== undefined) {
      before.items -= 1
      this.#failed -= 1
    }
    const name = kindOf(item)
    const kind = status === 'failed' ? (this.#kinds.get(name) ?? { items: 0 }) : undefined
    this.#items.set(itemKey(item), kind)
    if (kind === undefined) return
    this.#kinds.set(name, kind)
    kind.items += 1
    this.#failed += 1
    this.#latest = toSummary(`${type ?? 'failed'}: ${message ?? ''}`).replace(/\.$/, '')
  }

  /** Why no more items should be started; undefined while they should. */
  get verdict(): string | undefined {
    const failed = formatCount(this.#failed)
    const ended = this.#items.size
    if (this.#max !== undefined) {
      if (this.#failed < this.#max) return undefined
      return `${failed} of ${formatCount(ended)} rollouts have failed, most recently with ${this.#latest}. Fix that and start again${this.#advice?.raise ?? ''}.`
    }
    if (ended < firstItems || this.#failed < ended) return undefined
    if (![...this.#kinds.values()].some(({ items }) => items === ended)) return undefined
    return `The first ${failed} rollouts all failed the same way, with ${this.#latest}. Fix that and start again${this.#advice?.continue ?? ''}.`
  }
}

/** The type of a failure with its place, or else with its message without values that vary by row. */
function kindOf({ error_type: type, error_message: message }: EndedItem): string {
  const line = (message ?? '').split('\n', 1)[0]?.slice(0, 500) ?? ''
  return `${type} ${thrownAt(line) ?? line.replaceAll(/"[^"]*"|'[^']*'|`[^`]*`|\d+/g, '…')}`
}

/** When this many consecutive rollouts were lost to the policy, the run stops. */
const maxLosses = 20

/**
 * Items that failed because the policy was down. They count as failed when the policy answers others, and stay
 * pending when it does not; until that is known they wait here.
 */
export class PolicyLosses<Item> {
  #items: Item[] = []
  #message = ''

  /** @param message - the last answer of the policy */
  add(item: Item, message: string): void {
    this.#items.push(item)
    this.#message = message
  }

  get isEmpty(): boolean {
    return this.#items.length === 0
  }

  /** Why no more items should be started; undefined while they should. */
  get verdict(): string | undefined {
    return this.#items.length < maxLosses ? undefined : this.summary
  }

  /** What was lost, and to which answer. */
  get summary(): string {
    const { length } = this.#items
    const lost = length === 1 ? '1 rollout was' : `${length} consecutive rollouts were`
    return `${lost} lost to the policy. ${this.#message}`
  }

  /** Removes and returns the items, which now count as failed. */
  release(): Item[] {
    return this.#items.splice(0)
  }
}
