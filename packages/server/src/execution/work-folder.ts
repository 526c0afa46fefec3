import { constants, createWriteStream } from 'node:fs'
import { glob, lstat, mkdir, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'

import { errorMessage, OsmosisError, type WorkFolderOptions } from '@osmosis/core'
import { openBelow } from '@osmosis/core/sandbox'
import { removeTree } from '@osmosis/protocol/files'

/** How much the artifacts of a rollout may have: the agent may leave a file that is larger than the disk. Bytes. */
const maxArtifactBytes = 1024 ** 3

/** The folder that one rollout works in. */
export class WorkFolder {
  readonly path: string
  readonly #rolloutId: string
  readonly #options: WorkFolderOptions

  private constructor(folder: string, rolloutId: string, options: WorkFolderOptions) {
    this.path = folder
    this.#rolloutId = rolloutId
    this.#options = options
  }

  /** @throws OsmosisError with code `storage_error` when it cannot be created */
  static async create(rolloutId: string, options: WorkFolderOptions = {}): Promise<WorkFolder> {
    const { parent = tmpdir() } = options
    try {
      await mkdir(parent, { recursive: true })
      // Of its user alone (0700), with a name that no other rollout or process has.
      const folder = await mkdtemp(path.join(parent, 'osmosis-work-'))
      return new WorkFolder(folder, rolloutId, options)
    } catch (cause) {
      throw new OsmosisError(
        'storage_error',
        `The work folder of rollout ${rolloutId} cannot be created in ${parent}: ${errorMessage(cause)}. The option parent of workFolder() names another place.`,
        { cause },
      )
    }
  }

  /** Copies the files that are to be stored with the rollout. Never rejects. */
  async store(artifactsDir: () => string | null): Promise<void> {
    const { artifacts = [] } = this.#options
    if (artifacts.length === 0) return
    const failures: string[] = []
    const note = (error: unknown): unknown => failures.push(errorMessage(error))
    let rest = maxArtifactBytes
    try {
      for await (const name of glob([...artifacts], { cwd: this.path })) {
        // Links may name files of the host, and other files may never end.
        const found = await lstat(path.join(this.path, name)).catch(() => undefined)
        if (found?.isFile() !== true) continue
        const target = artifactsDir()
        if (target === null) throw new Error('the folder for artifacts cannot be created')
        await this.#copy(name, path.join(target, name), rest).then((size) => (rest -= size), note)
      }
    } catch (error) {
      note(error)
    }
    const [first] = failures
    if (first !== undefined)
      this.#warn(`files could not be stored (${failures.length}), such as: ${first}`)
  }

  /** Returns the size. */
  async #copy(name: string, target: string, maxBytes: number): Promise<number> {
    const source = await openBelow(this.path, name, constants.O_RDONLY)
    try {
      const { size, mode } = await source.stat()
      if (size > maxBytes) throw new Error(`${name} exceeds the limit of ${maxArtifactBytes} bytes`)
      await mkdir(path.dirname(target), { recursive: true })
      // Without its end, a file that grows as fast as it is read would be copied forever.
      const read = source.createReadStream({ autoClose: false, end: Math.max(size, 1) - 1 })
      await pipeline(read, createWriteStream(target, { mode }))
      return size
    } finally {
      await source.close()
    }
  }

  /** Deletes it when the rollout is over. Never rejects. */
  async close(hasFailed: boolean): Promise<void> {
    if (hasFailed && this.#options.keepOnFailure === true) {
      this.#warn(`it failed, so its work folder remains: ${this.path}`)
      return
    }
    try {
      await removeTree(this.path)
    } catch (error) {
      this.#warn(`its work folder could not be deleted: ${errorMessage(error)}`)
    }
  }

  #warn(what: string): void {
    process.emitWarning(`Rollout ${this.#rolloutId}: ${what}`, 'OsmosisWarning')
  }
}
