import { mkdirSync } from 'node:fs'
import path from 'node:path'

/**
 * The folder a rollout may keep files in, `<root>/<rolloutId>/artifacts`. Most rollouts keep none,
 * so it is made when it is first asked for. Null when it cannot be made: files are a convenience
 * and never a reason to fail a rollout.
 */
export class ArtifactsFolder {
  readonly #path: string
  #made: string | null | undefined

  constructor(root: string, rolloutId: string) {
    this.#path = path.join(root, rolloutId, 'artifacts')
  }

  get path(): string | null {
    if (this.#made !== undefined) return this.#made
    try {
      mkdirSync(this.#path, { recursive: true })
      this.#made = this.#path
    } catch {
      this.#made = null
    }
    return this.#made
  }
}
