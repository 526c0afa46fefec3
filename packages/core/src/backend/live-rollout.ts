import type { OsmosisError } from '../errors.ts'
import type { ArtifactsFolder } from './artifacts-folder.ts'
import type { Deadline } from './deadline.ts'
import type { RolloutRequest } from './execution-backend.ts'

/** A rollout that has not ended yet. */
export class LiveRollout {
  readonly request: RolloutRequest
  readonly artifacts: ArtifactsFolder
  status: 'queued' | 'running' | 'grading' = 'queued'
  readonly #ending = new AbortController()
  #phase: Deadline | undefined

  constructor(request: RolloutRequest, artifacts: ArtifactsFolder) {
    this.request = request
    this.artifacts = artifacts
  }

  /** Aborted when the rollout is cancelled or the process shuts down, between phases as well. */
  get ending(): AbortSignal {
    return this.#ending.signal
  }

  /** Ends the rollout early: the phase that is going on fails with `reason`, later ones do not start. */
  end(reason: OsmosisError): void {
    this.#ending.abort(reason)
    this.#phase?.abort(reason)
  }

  /** Makes `phase` the one that {@link end} stops. */
  enter(phase: Deadline): void {
    this.#phase = phase
    if (this.ending.aborted) phase.abort(this.ending.reason as OsmosisError)
  }
}
