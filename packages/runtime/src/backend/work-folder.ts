import { copyFile, glob, lstat, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { errorMessage, OsmosisError, type WorkFolderOptions } from '@osmosis/core'

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
    try {
      for await (const name of glob([...artifacts], { cwd: this.path })) {
        const source = path.join(this.path, name)
        // Links may name files of the host.
        if (!(await lstat(source)).isFile()) continue
        const target = artifactsDir()
        if (target === null) throw new Error('the folder for artifacts cannot be created')
        await mkdir(path.dirname(path.join(target, name)), { recursive: true })
        await copyFile(source, path.join(target, name))
      }
    } catch (error) {
      this.#warn(`files could not be stored: ${errorMessage(error)}`)
    }
  }

  /** Deletes it when the rollout is over. Never rejects. */
  async close(hasFailed: boolean): Promise<void> {
    if (hasFailed && this.#options.keepOnFailure === true) {
      this.#warn(`it failed, so its work folder remains: ${this.path}`)
      return
    }
    try {
      await rm(this.path, { recursive: true, force: true, maxRetries: 3 })
    } catch (error) {
      this.#warn(`its work folder could not be deleted: ${errorMessage(error)}`)
    }
  }

  #warn(what: string): void {
    process.emitWarning(`Rollout ${this.#rolloutId}: ${what}`, 'OsmosisWarning')
  }
}
