import { createHash } from 'node:crypto'
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs'
import path from 'node:path'
import { crc32 } from 'node:zlib'

import type { ItemEvent, RunManifest, SegmentPlace } from '@osmosis/eval/analysis'

import { journalLine } from '../../../../test/kit/journal-lines.ts'

const segmentBytes = 64 * 2 ** 20

/** Writes the files of a run at once, without the care that a run in progress needs. */
export class RunWriter {
  readonly folder: string
  readonly #journal: number
  #segment = 0
  #offset = 0
  #file: number

  constructor(root: string, manifest: RunManifest) {
    this.folder = path.join(root, manifest.run_name)
    mkdirSync(path.join(this.folder, 'trajectories'), { recursive: true })
    writeFileSync(path.join(this.folder, 'manifest.json'), JSON.stringify(manifest, null, 2))
    this.#journal = openSync(path.join(this.folder, 'events.jsonl'), 'a')
    this.#file = this.#openSegment()
  }

  /** Adds the end of an item. Without samples nothing was said. */
  add(
    event: Omit<ItemEvent, 'trajectory_place' | 'sample_place'>,
    samples: Readonly<Record<string, object>> | null,
  ): ItemEvent {
    const trajectory_place = samples === null ? null : this.#trajectories(event.rollout_id, samples)
    const whole: ItemEvent = { ...event, trajectory_place, sample_place: null }
    this.append(whole)
    return whole
  }

  /** Appends a line to the journal only. */
  append(event: ItemEvent): void {
    writeSync(this.#journal, journalLine(event))
  }

  close(): void {
    closeSync(this.#journal)
    closeSync(this.#file)
  }

  #trajectories(rolloutId: string, samples: Readonly<Record<string, object>>): SegmentPlace {
    if (this.#offset > segmentBytes) {
      closeSync(this.#file)
      this.#segment += 1
      this.#offset = 0
      this.#file = this.#openSegment()
    }
    const line = Buffer.from(`${JSON.stringify({ rollout_id: rolloutId, samples })}\n`)
    writeSync(this.#file, line)
    const place = [this.#segment, this.#offset, line.length, crc32(line)] as const
    this.#offset += line.length
    return place
  }

  #openSegment(): number {
    const name = `${String(this.#segment).padStart(4, '0')}.jsonl`
    return openSync(path.join(this.folder, 'trajectories', name), 'a')
  }
}

/** 32 hexadecimal digits made from a text. */
export function idOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}
