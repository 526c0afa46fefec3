import type { ItemEvent } from '../analysis/item-event.ts'

/** More different parts than this are no longer looked for among one another. */
const mostParts = 10_000

/**
 * Lets events share what they have alike, such as `{ stop: 1 }`: a run holds all of its events, and by
 * far most of the objects in them are of a few kinds.
 */
export class SharedParts {
  readonly #parts = new Map<string, unknown>()

  /** The same event, with parts that other events have as well. */
  share(event: ItemEvent): ItemEvent {
    return {
      ...event,
      samples: this.#shared(event.samples),
      finish: this.#shared(event.finish),
      tools: this.#shared(event.tools),
      metrics: this.#shared(event.metrics),
    }
  }

  #shared<T extends object>(part: T): T {
    const text = JSON.stringify(part)
    const known = this.#parts.get(text)
    if (known !== undefined) return known as T
    if (this.#parts.size < mostParts) this.#parts.set(text, part)
    return part
  }
}
