import { mkdirSync } from 'node:fs'
import path from 'node:path'

/**
 * The folder a rollout may keep files in, `<root>/<rolloutId>/artifacts`. Most rollouts keep none,
 * so it is made when it is first asked for. Null when it cannot be made: files are a convenience
 * and never a reason to fail a rollout.
 */
export class ArtifactsFolder {
  readonly #root: string
  readonly #rolloutId: string
  #made: string | null | undefined

  constructor(root: string, rolloutId: string) {
    this.#root = root
    this.#rolloutId = rolloutId
  }

  get path(): string | null {
    if (this.#made !== undefined) return this.#made
    try {
      const folder = path.join(this.#root, this.#rolloutId, 'artifacts')
      mkdirSync(folder, { recursive: true })
      this.#made = folder
    } catch {
      this.#made = null
    }
    return this.#made
  }
}
