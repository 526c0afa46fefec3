import {
  errorCategory,
  errorMessage,
  type GradingOutcome,
  type RolloutFailure,
  type RolloutObserver,
  type WorkflowOutcome,
} from '@osmosis/core'

import { completionBody, graderBody, type EncodedBody } from './callback-bodies.ts'
import type { Callback, CallbackDelivery } from '../delivery/callback-delivery.ts'
import type { Logger } from '../logging/logger.ts'
import type { SecretValues } from '../logging/secret-values.ts'

/** Where the results of one rollout go. */
export interface CallbackTargets {
  readonly rolloutId: string
  readonly completionUrl: string
  /** Null: the rollout is not graded. */
  readonly graderUrl: string | null
  readonly apiKey: string | null
}

/** What the callbacks of all rollouts share. */
export interface CallbackServices {
  readonly delivery: CallbackDelivery
  readonly logger: Logger
  readonly secrets: SecretValues
}

/**
 * Turns the outcomes of one rollout into callbacks: one body each, built once. What becomes of a
 * body on its way is no business of the rollout, so nothing here rejects.
 */
export class RolloutCallbacks implements RolloutObserver {
  readonly #targets: CallbackTargets
  readonly #services: CallbackServices
  #workflowReported = false
  #gradingReported = false

  constructor(targets: CallbackTargets, services: CallbackServices) {
    this.#targets = targets
    this.#services = services
  }

  async workflowFinished(outcome: WorkflowOutcome): Promise<void> {
    if (this.#workflowReported) return
    this.#workflowReported = true
    const { rolloutId, completionUrl } = this.#targets
    for (const warning of outcome.warnings) this.#warn(warning)
    const failure = this.#logged('workflow', outcome.failure)
    const body = completionBody(rolloutId, { ...outcome, failure })
    await this.#deliver('completion', completionUrl, body)
  }

  async gradingFinished(outcome: GradingOutcome): Promise<void> {
    const { rolloutId, graderUrl } = this.#targets
    if (this.#gradingReported || graderUrl === null) return
    this.#gradingReported = true
    const failure = this.#logged('grading', outcome.failure)
    await this.#deliver('grader', graderUrl, graderBody(rolloutId, { ...outcome, failure }))
  }

  /** Reports what the backend did not: it broke, or came back without a result. */
  async backendEnded(error: unknown): Promise<void> {
    const failure: RolloutFailure = {
      message: errorMessage(error),
      category: errorCategory(error),
      cause: error,
    }
    await this.workflowFinished({ status: 'failure', failure, warnings: [] })
    await this.gradingFinished({ status: 'failure', failure, samples: new Map() })
  }

  /** Whether every callback that the controller waits for has been seen to. */
  get complete(): boolean {
    return this.#workflowReported && (this.#gradingReported || this.#targets.graderUrl === null)
  }

  async #deliver(kind: Callback['kind'], url: string, body: EncodedBody): Promise<void> {
    const { rolloutId, apiKey } = this.#targets
    if (body.warning !== null) this.#warn(`The ${kind} callback leaves out ${body.warning}.`)
    await this.#services.delivery.deliver({
      rolloutId,
      kind,
      url,
      apiKey,
      idempotencyKey: `${rolloutId}/${kind}`,
      body: body.json,
    })
  }

  #warn(warning: string): void {
    this.#services.logger.warn({ rollout_id: this.#targets.rolloutId, warning }, 'rollout warning')
  }

  /** The failure with its secrets removed: messages of HTTP clients have been seen to carry keys. */
  #logged(phase: 'workflow' | 'grading', failure: RolloutFailure | null): RolloutFailure | null {
    if (failure === null) return null
    const { logger, secrets } = this.#services
    const { rolloutId } = this.#targets
    const { category, cause } = failure
    const message = secrets.redact(failure.message)
    logger.warn({ rollout_id: rolloutId, category, error: cause }, `${phase} failed: ${message}`)
    return { message, category, cause }
  }
}
