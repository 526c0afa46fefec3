import { randomUUID } from 'node:crypto'

/** How a front tells results. */
export interface TellingParts {
  /** @param mayHaveEnded - a hint: whether the rollout has ended */
  readonly tell: (id: string, mayHaveEnded: boolean) => Promise<unknown>
  /** How many at a time. */
  readonly mostAtOnce: number
  /** Has others tell what is not told here now. */
  readonly passOn: (id: string, hasEnded: boolean, delayMs: number) => void
}

/** Until what was not told is told by whoever takes the job. Milliseconds. */
const pauseMs = 1_000

/**
 * The results that this front tells: those of the rollouts that it accepted when it hears that there are
 * some, and any of which a job says so. Those of one rollout are told one after the other.
 */
export class Telling {
  /** Different for each front. */
  readonly id = randomUUID()
  readonly #parts: TellingParts
  readonly #going = new Map<string, Promise<unknown>>()

  constructor(parts: TellingParts) {
    this.#parts = parts
  }

  /** @param message - status and id of a rollout that this front accepted */
  hear(message: string): void {
    const space = message.indexOf(' ')
    const hasEnded = message.slice(0, space) !== 'grading'
    const id = message.slice(space + 1)
    const { mostAtOnce, passOn } = this.#parts
    if (this.#going.size >= mostAtOnce) return passOn(id, hasEnded, 0)
    this.tell(id, hasEnded).catch(() => passOn(id, hasEnded, pauseMs))
  }

  async tell(id: string, mayHaveEnded: boolean): Promise<void> {
    const before = this.#going.get(id)?.catch(() => {})
    const telling = (async (): Promise<void> => {
      await before
      await this.#parts.tell(id, mayHaveEnded)
    })()
    this.#going.set(id, telling)
    try {
      await telling
    } finally {
      if (this.#going.get(id) === telling) this.#going.delete(id)
    }
  }
}
