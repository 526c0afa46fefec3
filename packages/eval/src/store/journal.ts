import type { Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { crc32 } from 'node:zlib'

import { errorMessage, isOsmosisError } from '@osmosis/core'
import { readLines } from '@osmosis/protocol/files'
import { z } from 'zod'

import type { ItemEvent } from '../analysis/records/item-event.ts'
import { damagedRun, runFiles } from './run-files.ts'

/** How far a journal has been read. */
export interface JournalPosition {
  /** Bytes. */
  readonly offset: number
  /** Lines. */
  readonly line: number
}

/**
 * The events after a position, each with the position of the next one.
 *
 * @throws OsmosisError with code `damaged_run` for a line that is not an event
 */
export async function* readJournal(
  file: string,
  { offset, line }: JournalPosition = { offset: 0, line: 0 },
): AsyncGenerator<[event: ItemEvent, after: JournalPosition], void, undefined> {
  let number = line
  for await (const lines of linesOf(file, offset)) {
    for (const { text, end } of lines) {
      number += 1
      yield [toEvent(text, `${file}:${number}`), { offset: end, line: number }]
    }
  }
}

async function* linesOf(file: string, offset: number): ReturnType<typeof readLines> {
  try {
    yield* readLines(file, offset)
  } catch (cause) {
    throw damagedRun(`Cannot read the journal ${file}: ${errorMessage(cause)}.`, cause)
  }
}

function toEvent(text: string, place: string): ItemEvent {
  const event = fromJournalLine(text)
  if (event !== undefined) return event
  throw damagedRun(
    `${place} is not a valid event of a run. The file was changed or is damaged: remove the line, and its item runs again.`,
  )
}

const count = z.int().min(0)
const byName = z.record(z.string(), z.number())
const place = z.tuple([count, count, count, count]).nullable()

const itemEvent: z.ZodType<ItemEvent> = z.object({
  row_index: count,
  run_index: count,
  source_row_index: count,
  rollout_id: z.string(),
  status: z.enum(['success', 'failed', 'skipped']),
  reward: z.number().nullable(),
  tokens: z.number().nullable(),
  duration_ms: z.number(),
  error_type: z.string().nullable(),
  error_message: z.string().nullable(),
  row_key: z.string(),
  samples: z.record(z.string(), z.number().nullable()),
  scores: byName.exactOptional(),
  score_errors: z.record(z.string(), z.string()).exactOptional(),
  prompt_tokens: z.number().nullable(),
  completion_tokens: z.number().nullable(),
  cost_usd: z.number().nullable(),
  calls: count,
  tool_calls: count,
  tool_errors: count,
  finish: byName,
  rewritten: count,
  limit: z.string().exactOptional(),
  model_error: z.string().exactOptional(),
  no_text: z.literal(true).exactOptional(),
  versions: z.array(z.string()).exactOptional(),
  purposes: z.array(z.string()).exactOptional(),
  tools: z.array(z.object({ name: z.string(), calls: count, errors: count })),
  metrics: byName,
  grading_ms: z.number().nullable(),
  summary: z.string(),
  ended_at: z.string(),
  trajectory_place: place,
  sample_place: place,
})

/** An event as a line of a journal: its JSON, in which the last key is the CRC-32 of all before it. */
export function toJournalLine(event: ItemEvent): string {
  const text = JSON.stringify(event).slice(0, -1)
  return `${text},"crc32":${crc32(text)}}`
}

/** The event of a line; undefined when the line was changed or damaged. */
export function fromJournalLine(line: string): ItemEvent | undefined {
  const at = line.lastIndexOf(',"crc32":')
  if (at === -1) return undefined
  const text = line.slice(0, at)
  if (line.slice(at) !== `,"crc32":${crc32(text)}}`) return undefined
  try {
    return itemEvent.safeParse(JSON.parse(`${text}}`)).data
  } catch {
    return undefined
  }
}

/** Receives the events of a journal. */
export interface JournalVisitor {
  /** The journal is read from its beginning: discard the events received before. */
  begin(): void
  /** The next event, and the place of its line; the last event of an item counts. */
  take(event: ItemEvent, place: JournalPlace): void
}

/** The place of a line in a journal. */
export interface JournalPlace {
  /** Bytes. */
  readonly offset: number
  /** With its newline. Bytes. */
  readonly length: number
}

const start: JournalPosition = { offset: 0, line: 0 }

/** Reads a journal piece by piece while it grows, and stores no event. */
export class JournalFollower {
  readonly #location: string
  #position = start
  /** Identifies the file that was read. */
  #id: string | undefined

  constructor(location: string) {
    this.#location = location
  }

  /**
   * Passes on what was written since the last call. A replaced journal, as when a new run takes the same
   * name, is read from its beginning. One call at a time.
   *
   * @throws OsmosisError with code `damaged_run`
   */
  async read(visitor: JournalVisitor): Promise<void> {
    const journal = await this.#stat()
    // Inode numbers are reused.
    const id = `${journal.dev}:${journal.ino}:${journal.birthtimeMs}`
    const isReplaced = id !== this.#id || journal.size < this.#position.offset
    this.#id = id
    if (isReplaced) return this.#readAgain(visitor)
    if (journal.size === this.#position.offset) return
    try {
      await this.#readNew(visitor)
    } catch (error) {
      // A writer on a full disk removes lines that it could not make durable. A reader that has read them
      // is now in the middle of another line.
      if (!isOsmosisError(error) || error.code !== 'damaged_run') throw error
      await this.#readAgain(visitor)
    }
  }

  #readAgain(visitor: JournalVisitor): Promise<void> {
    this.#position = start
    visitor.begin()
    return this.#readNew(visitor)
  }

  async #readNew(visitor: JournalVisitor): Promise<void> {
    const file = runFiles(this.#location).journal
    for await (const [event, after] of readJournal(file, this.#position)) {
      const { offset } = this.#position
      this.#position = after
      visitor.take(event, { offset, length: after.offset - offset })
    }
  }

  async #stat(): Promise<Stats> {
    try {
      return await stat(runFiles(this.#location).journal)
    } catch (cause) {
      throw damagedRun(`The run ${this.#location} has no events.jsonl.`, cause)
    }
  }
}
