import { randomUUID } from 'node:crypto'
import { mkdir, open, readFile, realpath, type FileHandle } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'
import { writeFileAtomically } from '@osmosis/runtime/files'
import { lockName, type ProcessLock } from '@osmosis/server/protocols'

/** Calls that get the same reward, by the ids of their answers. */
export interface CallReward {
  readonly ids: readonly string[]
  readonly reward: number
}

/** A group whose attempts have all ended. */
export interface EndedGroup {
  /** Counted over all epochs, from 0. */
  readonly group: number
  /** What the explorer is to be told of each attempt, the first one first; empty where that is nothing. */
  readonly attempts: readonly (readonly CallReward[])[]
}

/** What has to be the same for a run to continue. */
export interface RunIdentity {
  /** Of all rows, in their order. */
  readonly digest: string
  readonly rows: number
  readonly attempts: number
}

interface JournalHead extends RunIdentity {
  readonly trinity_journal: 1
  /** Of the run, in the ids of its rollouts and groups. */
  readonly name: string
  /** How often the run was started or gone on with. */
  readonly starts: number
  /** How many groups had been committed by then; those of a run are committed in their order. */
  readonly committed: number
}

/**
 * How far a run has come: a line for each group that has ended, and for each commit. A line is on the disk
 * before anything follows from it. What a kill leaves of a last line is dropped, and what was committed
 * goes, with the next start.
 */
export class TrinityJournal {
  readonly name: string
  readonly starts: number
  committed: number
  /** Those that are not committed, by their number. */
  readonly ended: Map<number, EndedGroup>
  readonly #file: FileHandle | undefined
  readonly #lock: ProcessLock | undefined
  #writing: Promise<void> = Promise.resolve()

  private constructor(
    head: JournalHead,
    ended: Map<number, EndedGroup>,
    file?: FileHandle,
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
   * Opens the journal of a run, or begins one.
   *
   * @param file - without one, nothing is kept
   * @param name - of a run that begins; default: a random one
   * @throws OsmosisError with code `invalid_config` when another process has it, or it is that of another
   * run; `storage_error` when it cannot be read or written
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
    const lock = await lockName(place, `Another worker writes to the journal ${file}.`)
    try {
      const text = await textOf(file)
      const none = new Map<number, EndedGroup>()
      const read = text === '' ? { head: started, ended: none } : readJournal(text, file)
      assertSameRun(read.head, run, file)
      const head = { ...read.head, starts: read.head.starts + 1 }
      const lines = [head, ...read.ended.values()].map(lineOf)
      await writeFileAtomically(file, lines)
      return new TrinityJournal(head, read.ended, await open(file, 'a'), lock)
    } catch (error) {
      await lock.release()
      throw error
    }
  }

  async groupEnded(group: EndedGroup): Promise<void> {
    await this.#append(group)
    this.ended.set(group.group, group)
  }

  /** @param committed - how many groups are, from the first one on */
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

  /** After a line that could not be written none follows: it could stand behind half of one. */
  async #append(entry: object): Promise<void> {
    const file = this.#file
    if (file === undefined) return
    this.#writing = appendAfter(this.#writing, file, lineOf(entry))
    await this.#writing
  }
}

async function appendAfter(before: Promise<void>, file: FileHandle, line: string): Promise<void> {
  await before
  try {
    await file.writeFile(line)
    await file.datasync()
  } catch (cause) {
    const why = `The journal of the run could not be written: ${errorMessage(cause)}`
    throw new OsmosisError('storage_error', why, { cause })
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
  // Behind the last line feed there is nothing, or what a kill has left.
  const [first, ...lines] = text.split('\n').slice(0, -1)
  const head = parsed(first, 1, file) as unknown as JournalHead
  if (head.trinity_journal !== 1) throw damaged(file, 'its first line is not that of a journal')
  const ended = new Map<number, EndedGroup>()
  let { committed } = head
  for (const [index, line] of lines.entries()) {
    const entry = parsed(line, index + 2, file)
    if (typeof entry.committed === 'number') committed = entry.committed
    else if (typeof entry.group === 'number') ended.set(entry.group, entry as EndedGroup)
    else throw damaged(file, `line ${index + 2} says nothing that is known`)
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
  return new OsmosisError('invalid_config', `${file} is not a journal that can be read: ${why}.`)
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
    `The run that the journal ${file} belongs to ${other}. Continue with what it was started with, or begin a new run with another journal.`,
  )
}
