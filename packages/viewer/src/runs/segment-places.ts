import type { SegmentPlace } from '@osmosis/eval/analysis'

const fields = 4

/** Where lines of segments lie, by numbers from 0: a list of 16 bytes each, for very many. */
export class SegmentPlaces {
  #numbers = new Uint32Array(256 * fields)

  set(index: number, place: SegmentPlace | null): void {
    while (this.#numbers.length < (index + 1) * fields) {
      const longer = new Uint32Array(this.#numbers.length * 2)
      longer.set(this.#numbers)
      this.#numbers = longer
    }
    // No line has no bytes.
    this.#numbers.set(place ?? [0, 0, 0, 0], index * fields)
  }

  get(index: number): SegmentPlace | null {
    const [segment = 0, offset = 0, length = 0, crc = 0] = this.#numbers.subarray(
      index * fields,
      (index + 1) * fields,
    )
    return length === 0 ? null : [segment, offset, length, crc]
  }
}
