import { randomUUID } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import path from 'node:path'

import { errorMessage } from '@osmosis/core'
import { z } from 'zod'

import type { Callback } from './callback-delivery.ts'
import { lockFolder, type FolderLock } from './folder-lock.ts'
import type { Logger } from './logger.ts'

/** A callback on disk. */
export interface KeptCallback {
  readonly callback: Callback
  /** It has arrived: nothing is left to keep. */
  forget(): Promise<void>
  /** The receiver refused it for good: it stays, for people, and is not sent again. */
  setAside(): Promise<void>
}

const entrySchema = z.object({
  rollout_id: z.string(),
  kind: z.string(),
  url: z.string(),
  api_key: z.string().nullable(),
  idempotency_key: z.string(),
  body: z.string(),
})

const waitingSuffix = '.json'
const unfinishedSuffix = '.tmp'

/**
 * Callbacks that wait for an acknowledgement, a file each, so that they outlive the process. Files
 * hold the bearer keys that they are sent with; only the owner of the process can read them.
 */
export class CallbackOutbox {
  readonly #folder: string
  readonly #logger: Logger
  #lock: FolderLock | undefined
  #count = 0

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
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    this.#lock = await lockFolder(this.#folder)
    const left: KeptCallback[] = []
    for (const name of (await readdir(this.#folder)).toSorted()) {
      const file = path.join(this.#folder, name)
      // Never finished, so never sent: the rollout it was about ended with its process.
      if (name.endsWith(unfinishedSuffix)) await rm(file)
      if (!name.endsWith(waitingSuffix)) continue
      const callback = await this.#read(file)
      if (callback !== undefined) left.push(this.#kept(file, callback))
    }
    return left
  }

  /** Writes a callback; when this resolves it survives the process and the machine. */
  async keep(callback: Callback): Promise<KeptCallback> {
    this.#count += 1
    const order = `${Date.now()}-${String(this.#count).padStart(9, '0')}`
    const file = path.join(this.#folder, `${order}-${randomUUID()}${waitingSuffix}`)
    const unfinished = `${file}${unfinishedSuffix}`
    const handle = await open(unfinished, 'wx', 0o600)
    try {
      await handle.writeFile(toText(callback))
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(unfinished, file)
    await syncFolder(this.#folder)
    return this.#kept(file, callback)
  }

  /** Lets other processes have the folder. */
  async close(): Promise<void> {
    await this.#lock?.release()
  }

  #kept(file: string, callback: Callback): KeptCallback {
    return {
      callback,
      forget: () => rm(file, { force: true }),
      setAside: () => rename(file, `${file.slice(0, -waitingSuffix.length)}.refused`),
    }
  }

  async #read(file: string): Promise<Callback | undefined> {
    try {
      const entry = entrySchema.parse(JSON.parse(await readFile(file, 'utf8')))
      return {
        rolloutId: entry.rollout_id,
        kind: entry.kind,
        url: entry.url,
        apiKey: entry.api_key,
        idempotencyKey: entry.idempotency_key,
        body: entry.body,
      }
    } catch (error) {
      this.#logger.error({ file, reason: errorMessage(error) }, 'no callback can be read from file')
      return undefined
    }
  }
}

function toText({ rolloutId, kind, url, apiKey, idempotencyKey, body }: Callback): string {
  const entry: z.input<typeof entrySchema> = {
    rollout_id: rolloutId,
    kind,
    url,
    api_key: apiKey,
    idempotency_key: idempotencyKey,
    body,
  }
  return `${JSON.stringify(entry)}\n`
}

/** Makes a new name in the folder as durable as the file behind it. */
async function syncFolder(folder: string): Promise<void> {
  // Windows cannot open folders, and keeps the names of files without being asked.
  if (process.platform === 'win32') return
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
