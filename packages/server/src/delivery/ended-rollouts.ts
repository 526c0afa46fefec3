import { createReadStream } from 'node:fs'
import { rename } from 'node:fs/promises'
import path from 'node:path'

import type { RolloutState } from '@osmosis/protocol'
import { AppendedFile, WriteGroups } from '@osmosis/protocol/files'
import { rolloutStatusSchema } from '@osmosis/protocol/wire'
import { z } from 'zod'

import type { JournalFolder } from '../journal/journal.ts'

/** A rollout that ended and was delivered completely, for repeated requests. */
export interface RememberedRollout {
  readonly key: string
  readonly digest: string
  /** Answer to a repeated request: JSON. */
  readonly answer: string
  /** How it ended; undefined where the protocol has no status route. */
  readonly state?: RolloutState | undefined
  /** When it ended: milliseconds since 1970. */
  readonly at: number
}

const lineSchema = z.object({
  key: z.string(),
  digest: z.string(),
  answer: z.string(),
  state: z
    .object({
      status: rolloutStatusSchema,
      reward: z.number().nullable(),
      errorMessage: z.string().nullable(),
    })
    .optional(),
  at: z.number(),
})

/** Memory holds this many; the two files together contain at least as many. */
const linesPerFile = 10_000
/** Size of a write. Characters. */
const groupLength = 1024 * 1024
/** Size of a read. */
const pieceBytes = 1024 * 1024

/** The rollouts that ended recently, in two alternating files, so that neither has to be rewritten. */
export class EndedRollouts {
  readonly #folder: JournalFolder
  readonly #path: string
  readonly #olderPath: string
  readonly #groups = new WriteGroups<string>(
    async (lines) => this.#write(lines),
    ({ length }) => length,
    groupLength,
  )
  #file: AppendedFile | undefined
  #lines = 0
  #isOpen = false

  constructor(folder: JournalFolder) {
    this.#folder = folder
    this.#path = path.join(folder.path, 'ended.jsonl')
    this.#olderPath = path.join(folder.path, 'ended.older.jsonl')
  }

  /** Reads the entries of earlier processes, in the order of the ends. */
  async read(): Promise<RememberedRollout[]> {
    const older = await readEnded(this.#olderPath)
    const current = await readEnded(this.#path)
    this.#lines = current.length
    this.#isOpen = true
    return [...older, ...current]
  }

  /** When this resolves, the entry survives the machine. */
  async add(ended: RememberedRollout): Promise<void> {
    if (!this.#isOpen) throw new Error('the outbox is closed')
    await this.#groups.add(JSON.stringify(ended satisfies z.input<typeof lineSchema>))
  }

  async close(): Promise<void> {
    this.#isOpen = false
    await this.#groups.idle()
    await this.#closeFile()
  }

  async #write(lines: readonly string[]): Promise<void> {
    this.#folder.assertHeld()
    if (this.#lines >= linesPerFile) {
      await this.#closeFile()
      await rename(this.#path, this.#olderPath).catch(unlessMissing)
      this.#lines = 0
    }
    this.#file ??= new AppendedFile(this.#path)
    // The newline in front ends a line that a killed process or a full disk left incomplete.
    const text = lines.map((line) => `\n${line}`).join('')
    try {
      await this.#file.append(text, { sync: true })
      this.#lines += lines.length
    } catch (error) {
      // The file may have been removed: the next write opens it again.
      await this.#closeFile()
      throw error
    }
  }

  async #closeFile(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    await file?.close()
  }
}

/** The folder may have been removed and created again. */
function unlessMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

async function readEnded(file: string): Promise<RememberedRollout[]> {
  const ended: RememberedRollout[] = []
  try {
    for await (const line of linesOf(file)) ended.push(...toEnded(line))
  } catch (error) {
    unlessMissing(error as NodeJS.ErrnoException)
  }
  return ended
}

/** Yields lines: the whole file may be longer than the longest string. */
async function* linesOf(file: string): AsyncGenerator<Buffer> {
  let started: Buffer[] = []
  const pieces: AsyncIterable<Buffer> = createReadStream(file, { highWaterMark: pieceBytes })
  for await (const piece of pieces) {
    let start = 0
    for (let end = piece.indexOf(0x0a); end !== -1; end = piece.indexOf(0x0a, start)) {
      yield Buffer.concat([...started, piece.subarray(start, end)])
      started = []
      start = end + 1
    }
    started.push(piece.subarray(start))
  }
  yield Buffer.concat(started)
}

/** Empty for an incomplete line: then the record of the rollout still exists. */
function toEnded(line: Buffer): RememberedRollout[] {
  try {
    return [lineSchema.parse(JSON.parse(line.toString('utf8')))]
  } catch {
    return []
  }
}
