import { errorMessage } from '@osmosis/core'

import type { ItemEvent } from '../analysis/item-event.ts'
import { fromJournalLine } from './journal-line.ts'
import { readLines } from './json-lines.ts'
import { damagedRun } from './run-files.ts'

/** How far a journal has been read. */
export interface JournalPosition {
  /** Bytes. */
  readonly offset: number
  /** Lines. */
  readonly line: number
}

/**
 * The events behind a position, each with the position after it.
 *
 * @throws OsmosisError with code `damaged_run` for a line that holds no event
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
    `${place} is not an event of a run as it was written. The file was changed or is damaged: remove the line, and its item runs again.`,
  )
}
