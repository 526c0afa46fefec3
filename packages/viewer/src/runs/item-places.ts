import type { JournalPlace } from '@osmosis/eval'
import type { SegmentPlace } from '@osmosis/eval/analysis'

const fields = 6

/** Where items lie in the files of a run, by numbers from 0: 48 bytes each, for very many. */
export class ItemPlaces {
  #numbers = new Float64Array(256 * fields)

  /** @param at - of what was said; null for nothing */
  set(index: number, { offset, length }: JournalPlace, at: SegmentPlace | null): void {
    while (this.#numbers.length < (index + 1) * fields) {
      const longer = new Float64Array(this.#numbers.length * 2)
      longer.set(this.#numbers)
      this.#numbers = longer
    }
    // No line has no bytes.
    this.#numbers.set([offset, length, ...(at ?? [0, 0, 0, 0])], index * fields)
  }

  /** The line of the journal. */
  event(index: number): JournalPlace {
    const [offset = 0, length = 0] = this.#of(index)
    return { offset, length }
  }

  /** The line of a segment with what was said; null for nothing. */
  said(index: number): SegmentPlace | null {
    const [, , segment = 0, offset = 0, length = 0, crc = 0] = this.#of(index)
    return length === 0 ? null : [segment, offset, length, crc]
  }

  #of(index: number): Float64Array {
    return this.#numbers.subarray(index * fields, (index + 1) * fields)
  }
}
