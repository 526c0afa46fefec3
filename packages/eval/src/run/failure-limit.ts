import type { ItemEvent } from '../analysis/item-event.ts'
import { thrownAt } from '../analysis/thrown-error.ts'
import { toSummary } from '../analysis/trajectory-facts.ts'
import { formatCount } from '../analysis/number-text.ts'

/** So many at the beginning of a run are no accident when all of them fail alike. */
const firstOfRun = 20

type EndedItem = Pick<ItemEvent, 'status' | 'error_type' | 'error_message'>

/** Counts the failures of a run, against those it may have. */
export class FailureLimit {
  readonly #most: number | undefined
  #ended = 0
  #failed = 0
  /** How all items that have ended failed; undefined when they did not all fail alike. */
  #alike: string | undefined
  #latest = ''

  /**
   * @param limit - failures that stop the run: from 1 on their number, below that a share of all items;
   * false for any number of them. Default: when the first 20 items all fail alike
   * @param total - items of the run
   */
  constructor(limit: number | false | undefined, total: number) {
    if (limit !== undefined) {
      this.#most = limit === false ? Infinity : Math.ceil(limit < 1 ? limit * total : limit)
    }
  }

  /** Takes an item that has ended. */
  add(item: EndedItem): void {
    const { status, error_message: message, error_type: type } = item
    const kind = status === 'failed' ? kindOf(item) : undefined
    this.#alike = this.#ended === 0 || this.#alike === kind ? kind : undefined
    this.#ended += 1
    if (kind === undefined) return
    this.#failed += 1
    this.#latest = toSummary(`${type ?? 'failed'}: ${message ?? ''}`).replace(/\.$/, '')
  }

  /** Why no more items are to be started; undefined as long as they are. */
  get verdict(): string | undefined {
    const failed = formatCount(this.#failed)
    if (this.#most !== undefined) {
      if (this.#failed < this.#most) return undefined
      return `${failed} of ${formatCount(this.#ended)} rollouts have failed, at last with ${this.#latest}. Correct that and start again, or raise --fail-on-error to continue.`
    }
    if (this.#alike === undefined || this.#ended < firstOfRun) return undefined
    return `The first ${failed} rollouts have all failed alike, with ${this.#latest}. Correct that and start again, or pass --no-fail-on-error to continue.`
  }
}

/** The type of a failure with its place, or its words where it has none: those of a row aside. */
function kindOf({ error_type: type, error_message: message }: EndedItem): string {
  const line = (message ?? '').split('\n', 1)[0]?.slice(0, 500) ?? ''
  return `${type} ${thrownAt(line) ?? line.replaceAll(/"[^"]*"|'[^']*'|`[^`]*`|\d+/g, '…')}`
}
