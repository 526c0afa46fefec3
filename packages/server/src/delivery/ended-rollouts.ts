import type { RolloutState } from '@osmosis/core'
import { rolloutStatusSchema } from '@osmosis/core/wire'
import { z } from 'zod'

import { shareRuns, type OutboxFolder } from './outbox-folder.ts'

/** A rollout that ended and was told in full, for those who send it again. */
export interface EndedRollout {
  readonly key: string
  readonly digest: string
  /** What a repeated request is answered: JSON. */
  readonly answer: string
  /** How it ended; undefined where nobody can ask. */
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

const currentName = 'ended.jsonl'
const olderName = 'ended.older.jsonl'
/** As many as are remembered in memory; two files hold at least the last so many. */
const linesPerFile = 10_000

/** The rollouts that ended lately, in two files that take turns, so that neither has to be rewritten. */
export class EndedRollouts {
  readonly #folder: OutboxFolder
  readonly #flush: () => Promise<void>
  #waiting: string[] = []
  #lines = 0

  constructor(folder: OutboxFolder) {
    this.#folder = folder
    this.#flush = shareRuns(async () => this.#write())
  }

  /** Reads what earlier processes wrote, in the order of the ends. */
  async read(): Promise<EndedRollout[]> {
    const older = await this.#readFile(olderName)
    const current = await this.#readFile(currentName)
    this.#lines = current.length
    return [...older, ...current]
  }

  /** When this resolves, the entry survives the machine. */
  async add(ended: EndedRollout): Promise<void> {
    this.#waiting.push(JSON.stringify(ended satisfies z.input<typeof lineSchema>))
    await this.#flush()
  }

  async #write(): Promise<void> {
    const lines = this.#waiting.splice(0)
    if (this.#lines >= linesPerFile) {
      await this.#folder.rename(currentName, olderName)
      this.#lines = 0
    }
    this.#lines += lines.length
    // The newline in front ends what a process that was killed, or a full disk, left half-written.
    const text = lines.map((line) => `\n${line}`).join('')
    await this.#folder.append(currentName, text, { sync: true, create: true })
  }

  async #readFile(name: string): Promise<EndedRollout[]> {
    const text = await this.#folder.read(name).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return ''
      throw error
    })
    return text.split('\n').flatMap(toEnded)
  }
}

/** Nothing from half a line: the file of the rollout is still there, then. */
function toEnded(line: string): EndedRollout[] {
  try {
    return [lineSchema.parse(JSON.parse(line))]
  } catch {
    return []
  }
}
