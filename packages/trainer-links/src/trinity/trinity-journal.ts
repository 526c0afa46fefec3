import { randomUUID } from 'node:crypto'
import { mkdir, readFile, realpath } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import {
  AppendedFile,
  lockName,
  writeFileAtomically,
  type ProcessLock,
} from '@osmosis/protocol/files'

/** Calls that get the same reward, by the ids of their answers. */
export interface CallReward {
  readonly ids: readonly string[]
  readonly reward: number
}

/** A group whose attempts have all ended. */
export interface EndedGroup {
  /** Counted over all epochs, from 0. */
  readonly group: number
  /** The rewards of each attempt, in order; empty for an attempt without a reward. */
  readonly attempts: readonly (readonly CallReward[])[]
}

/** What must be unchanged for a run to resume. */
export interface RunIdentity {
  /** Hash of all rows, in their order. */
  readonly digest: string
  readonly rows: number
  readonly attempts: number
}

interface JournalHead extends RunIdentity {
  readonly trinity_journal: 1
  /** The name of the run, part of the ids of its rollouts and groups. */
  readonly name: string
  /** How often the run was started or resumed. */
  readonly starts: number
  /** How many groups were committed before this start; groups are committed in order. */
  readonly committed: number
}

/**
 * The progress of a run: a line for each ended group and for each commit. A line is on the disk before the
 * run acts on it. The next start drops an incomplete last line and the groups that were committed.
 */
export class TrinityJournal {
  readonly name: string
  readonly starts: number
  committed: number
  /** Ended groups that are not committed, by number. */
  readonly ended: Map<number, EndedGroup>
  readonly #file: AppendedFile | undefined
  readonly #lock: ProcessLock | undefined
  #writing: Promise<void> = Promise.resolve()

  private constructor(
    head: JournalHead,
    ended: Map<number, EndedGroup>,
    file?: AppendedFile,
    lock?: ProcessLock,
  ) {
    this.name = head.name
    this.starts = head.starts
    this.committed = head.committed
    this.ended = ended
    this.#file = file
    this.#lock = lock
  }

  /**
   * Opens the journal of a run, or starts one.
   *
   * @param file - without one, nothing is stored
   * @param name - the name of a new run; default: a random one
   * @throws OsmosisError with code `invalid_config` when another process uses the journal or it belongs to
   * another run; `storage_error` when it cannot be read or written
   */
  static async open(
    file: string | undefined,
    run: RunIdentity,
    name: string = randomUUID().slice(0, 8),
  ): Promise<TrinityJournal> {
    const started: JournalHead = { trinity_journal: 1, name, starts: 0, committed: 0, ...run }
    if (file === undefined) return new TrinityJournal({ ...started, starts: 1 }, new Map())
    try {
      return await TrinityJournal.#openFile(file, run, started)
    } catch (cause) {
      if (isOsmosisError(cause)) throw cause
      const why = `The journal ${file} cannot be opened: ${errorMessage(cause)}`
      throw new OsmosisError('storage_error', why, { cause })
    }
  }

  static async #openFile(
    file: string,
    run: RunIdentity,
    started: JournalHead,
  ): Promise<TrinityJournal> {
    await mkdir(path.dirname(file), { recursive: true })
    const place = path.join(await realpath(path.dirname(file)), path.basename(file))
    const why = `Another worker writes to the journal ${file}.`
    const lock = await lockName(place, () => new OsmosisError('invalid_config', why))
    try {
      const text = await textOf(file)
      const none = new Map<number, EndedGroup>()
      const read = text === '' ? { head: started, ended: none } : readJournal(text, file)
      assertSameRun(read.head, run, file)
      const head = { ...read.head, starts: read.head.starts + 1 }
      const lines = [head, ...read.ended.values()].map(lineOf)
      await writeFileAtomically(file, lines)
      return new TrinityJournal(head, read.ended, new AppendedFile(file), lock)
    } catch (error) {
      await lock.release()
      throw error
    }
  }

  async groupEnded(group: EndedGroup): Promise<void> {
    await this.#append(group)
    this.ended.set(group.group, group)
  }

  /** @param committed - the number of committed groups, counted from the first */
  async batchCommitted(committed: number): Promise<void> {
    await this.#append({ committed })
    this.committed = committed
    for (const group of this.ended.keys()) if (group < committed) this.ended.delete(group)
  }

  async close(): Promise<void> {
    await this.#writing.catch(() => {})
    await this.#file?.close()
    await this.#lock?.release()
  }

  /** After a failed write no line follows, because it could continue an incomplete one. */
  async #append(entry: object): Promise<void> {
    const file = this.#file
    if (file === undefined) return
    this.#writing = this.#writing.then(() => file.append(lineOf(entry), { sync: true }))
    try {
      await this.#writing
    } catch (cause) {
      const why = `The journal of the run could not be written: ${errorMessage(cause)}`
      throw new OsmosisError('storage_error', why, { cause })
    }
  }
}

function lineOf(entry: object): string {
  return `${JSON.stringify(entry)}\n`
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

function readJournal(
  text: string,
  file: string,
): { head: JournalHead; ended: Map<number, EndedGroup> } {
  // The text after the last line feed is empty or an incomplete line.
  const [first, ...lines] = text.split('\n').slice(0, -1)
  const head = parsed(first, 1, file) as unknown as JournalHead
  if (head.trinity_journal !== 1) throw damaged(file, 'its first line is not that of a journal')
  const ended = new Map<number, EndedGroup>()
  let { committed } = head
  for (const [index, line] of lines.entries()) {
    const entry = parsed(line, index + 2, file)
    if (typeof entry.committed === 'number') committed = entry.committed
    else if (typeof entry.group === 'number') ended.set(entry.group, entry as EndedGroup)
    else throw damaged(file, `line ${index + 2} is neither a group nor a commit`)
  }
  for (const group of ended.keys()) if (group < committed) ended.delete(group)
  return { head: { ...head, committed }, ended }
}

type JournalLine = Partial<EndedGroup & Pick<JournalHead, 'committed'>>

function parsed(line: string | undefined, number: number, file: string): JournalLine {
  try {
    return JSON.parse(line ?? '') as JournalLine
  } catch {
    throw damaged(file, `line ${number} is not JSON`)
  }
}

function damaged(file: string, why: string): OsmosisError {
  return new OsmosisError('invalid_config', `${file} is not a valid journal: ${why}.`)
}

function assertSameRun(head: JournalHead, run: RunIdentity, file: string): void {
  const other =
    head.attempts !== run.attempts
      ? `has ${head.attempts} attempts of each row, not ${run.attempts}`
      : head.digest !== run.digest
        ? `is over other rows (${head.rows}; there are ${run.rows} now)`
        : undefined
  if (other === undefined) return
  throw new OsmosisError(
    'invalid_config',
    `The run that the journal ${file} belongs to ${other}. Use the inputs that it was started with, or start a new run with another journal.`,
  )
}
