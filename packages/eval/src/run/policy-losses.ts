/** So many rollouts in a row lost to the policy are no accident. */
const mostLosses = 20

/**
 * Items that failed because the policy was down. They have failed for good only when it
 * answers again: as long as it does not, they wait here and count for nothing.
 */
export class PolicyLosses<Item> {
  #held: Item[] = []
  #message = ''

  /** Takes an item that was lost; `message` says what the policy answered last. */
  add(item: Item, message: string): void {
    this.#held.push(item)
    this.#message = message
  }

  /** Why nothing more should be asked of the policy; undefined as long as something should. */
  get verdict(): string | undefined {
    if (this.#held.length < mostLosses) return undefined
    return `${this.#held.length} rollouts in a row were lost to the policy. ${this.#message}`
  }

  /** The items that have failed after all; they are not held any longer. */
  release(): Item[] {
    return this.#held.splice(0)
  }
}
