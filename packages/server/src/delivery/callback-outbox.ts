import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import path from 'node:path'

import { ConcurrencyLimiter, errorMessage, OsmosisError } from '@osmosis/core'
import { syncFolder, writeFileAtomically } from '@osmosis/core/files'
import { z } from 'zod'

import type { Callback } from './callback-delivery.ts'
import { lockFolder, type FolderLock } from './folder-lock.ts'
import type { Logger } from '../logging/logger.ts'

/** A callback on disk. */
export interface KeptCallback {
  readonly callback: Callback
  /** It has arrived: nothing is left to keep. */
  forget(): Promise<void>
  /** The receiver refused it for good: it stays, for people, and is not sent again. */
  setAside(): Promise<void>
}

const entrySchema = z.object({
  /** Milliseconds since 1970; no two of one process are the same. */
  kept_at: z.number(),
  rollout_id: z.string(),
  kind: z.string(),
  url: z.string(),
  api_key: z.string().nullable(),
  idempotency_key: z.string(),
  body: z.string(),
})

/** Only files with these names are touched: the folder may hold others. */
const waitingName = /^[0-9a-f]{64}\.json$/
const unfinishedName = /^[0-9a-f]{64}\.json\.[0-9a-f-]{36}\.tmp$/

/** Results may end by the thousand at once, and files that can be open are few. */
const writesAtOnce = 16

/**
 * Callbacks that wait for an acknowledgement, a file for each idempotency key, so that they outlive
 * the process. Files hold the bearer keys that they are sent with; only the owner of the process
 * can read them.
 */
export class CallbackOutbox {
  readonly #folder: string
  readonly #logger: Logger
  readonly #writes = new ConcurrencyLimiter(writesAtOnce)
  /** Which callback a file is about: the last that was kept under its key. */
  readonly #owners = new Map<string, KeptCallback>()
  #lock: FolderLock | undefined
  #lastKeptAt = 0

  constructor(folder: string, logger: Logger) {
    this.#folder = path.resolve(folder)
    this.#logger = logger
  }

  /**
   * Takes the folder for this process and resolves with what earlier ones left behind, oldest
   * first.
   *
   * @throws OsmosisError with code `invalid_config` when another process uses the folder
   */
  async open(): Promise<KeptCallback[]> {
    await this.#makeFolder()
    this.#lock = await lockFolder(this.#folder)
    try {
      return await this.#leftovers()
    } catch (error) {
      await this.close()
      throw error
    }
  }

  /**
   * Writes a callback; when this resolves it survives the process and the machine. It takes the
   * place of an earlier one with the same idempotency key.
   */
  async keep(callback: Callback): Promise<KeptCallback> {
    const release = await this.#writes.acquire(new AbortController().signal)
    try {
      const keptAt = Math.max(Date.now(), this.#lastKeptAt + 1)
      this.#lastKeptAt = keptAt
      const file = path.join(this.#folder, fileName(callback))
      await writeFileAtomically(file, toText(callback, keptAt), { mode: 0o600, sync: 'file' })
      const kept = this.#kept(file, callback)
      await syncFolder(this.#folder).catch((error: unknown) => {
        this.#logger.error({ error }, 'callback kept, but may not survive a power failure')
      })
      return kept
    } finally {
      release()
    }
  }

  /** Lets other processes have the folder. */
  async close(): Promise<void> {
    const lock = this.#lock
    this.#lock = undefined
    await lock?.release()
  }

  async #makeFolder(): Promise<void> {
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    } catch (cause) {
      throw new OsmosisError(
        'invalid_config',
        `The outbox must be a folder that can be written to: ${errorMessage(cause)}`,
        { cause },
      )
    }
  }

  async #leftovers(): Promise<KeptCallback[]> {
    const left: { keptAt: number; kept: KeptCallback }[] = []
    for (const name of await readdir(this.#folder)) {
      const file = path.join(this.#folder, name)
      // Never finished, so never sent: the rollout it was about ended with its process.
      if (unfinishedName.test(name)) await rm(file, { force: true })
      if (!waitingName.test(name)) continue
      const entry = await this.#read(file)
      if (entry === undefined) continue
      left.push({ keptAt: entry.keptAt, kept: this.#kept(file, entry.callback) })
    }
    return left.toSorted((a, b) => a.keptAt - b.keptAt).map(({ kept }) => kept)
  }

  #kept(file: string, callback: Callback): KeptCallback {
    const whenOwner = async (act: () => Promise<void>): Promise<void> => {
      if (this.#owners.get(file) !== kept) return
      this.#owners.delete(file)
      await act()
    }
    const kept: KeptCallback = {
      callback,
      forget: () => whenOwner(() => rm(file, { force: true })),
      setAside: () => whenOwner(() => rename(file, file.replace(/\.json$/, '.refused'))),
    }
    this.#owners.set(file, kept)
    return kept
  }

  async #read(file: string): Promise<{ keptAt: number; callback: Callback } | undefined> {
    try {
      const entry = entrySchema.parse(JSON.parse(await readFile(file, 'utf8')))
      const callback = {
        rolloutId: entry.rollout_id,
        kind: entry.kind,
        url: entry.url,
        apiKey: entry.api_key,
        idempotencyKey: entry.idempotency_key,
        body: entry.body,
      }
      return { keptAt: entry.kept_at, callback }
    } catch {
      // What the parser says quotes the file, keys included.
      this.#logger.error({ file }, 'no callback can be read from file; it is left alone')
      return undefined
    }
  }
}

function fileName({ idempotencyKey }: Callback): string {
  return `${createHash('sha256').update(idempotencyKey).digest('hex')}.json`
}

function toText(callback: Callback, keptAt: number): string {
  const entry: z.input<typeof entrySchema> = {
    kept_at: keptAt,
    rollout_id: callback.rolloutId,
    kind: callback.kind,
    url: callback.url,
    api_key: callback.apiKey,
    idempotency_key: callback.idempotencyKey,
    body: callback.body,
  }
  return `${JSON.stringify(entry)}\n`
}
