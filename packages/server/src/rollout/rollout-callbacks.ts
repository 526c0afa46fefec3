import type { GradingOutcome, WorkflowOutcome } from '@osmosis/core'

import { completionBody, graderBody, type EncodedBody } from './callback-bodies.ts'
import type { Callback, CallbackDelivery } from '../delivery/callback-delivery.ts'
import type { Logger } from '../logging/logger.ts'
import type { SecretValues } from '../logging/secret-values.ts'
import { OutcomeLog, toBackendFailure, type ResultDelivery } from './result-delivery.ts'

const warnedOfSeveral = new WeakSet<Logger>()

/** Where the results of one rollout go. */
export interface CallbackTargets {
  readonly rolloutId: string
  readonly completionUrl: string
  /** Null: the rollout is not graded. */
  readonly graderUrl: string | null
  readonly apiKey: string | null
  /** Gets the bodies of acknowledgements. */
  readonly onAcknowledged?: ((body: string) => void) | undefined
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
export class RolloutCallbacks implements ResultDelivery {
  readonly #targets: CallbackTargets
  readonly #services: CallbackServices
  readonly #log: OutcomeLog
  #workflowReported = false
  #gradingReported = false

  constructor(targets: CallbackTargets, services: CallbackServices) {
    this.#targets = targets
    this.#services = services
    this.#log = new OutcomeLog(targets.rolloutId, services)
  }

  async workflowFinished(outcome: WorkflowOutcome): Promise<void> {
    if (this.#workflowReported) return
    this.#workflowReported = true
    const { rolloutId, completionUrl } = this.#targets
    for (const warning of outcome.warnings) this.#log.warn(warning)
    const failure = this.#log.failure('workflow', outcome.failure)
    const body = completionBody(rolloutId, { ...outcome, failure })
    await this.#deliver('completion', completionUrl, body)
  }

  async gradingFinished(outcome: GradingOutcome): Promise<void> {
    const { rolloutId, graderUrl } = this.#targets
    if (this.#gradingReported || graderUrl === null) return
    this.#gradingReported = true
    this.#warnOfSeveral(outcome.samples.size)
    const failure = this.#log.failure('grading', outcome.failure)
    await this.#deliver('grader', graderUrl, graderBody(rolloutId, { ...outcome, failure }))
  }

  async backendEnded(error: unknown): Promise<void> {
    const failure = toBackendFailure(error)
    await this.workflowFinished({ status: 'failure', failure, warnings: [] })
    await this.gradingFinished({ status: 'failure', failure, samples: new Map() })
  }

  get complete(): boolean {
    return this.#workflowReported && (this.#gradingReported || this.#targets.graderUrl === null)
  }

  /** Once per server: a workflow with several samples has them in every rollout. */
  #warnOfSeveral(samples: number): void {
    const { logger } = this.#services
    if (samples < 2 || warnedOfSeveral.has(logger)) return
    warnedOfSeveral.add(logger)
    logger.warn(
      { rollout_id: this.#targets.rolloutId, samples },
      'several samples in one rollout: callers of the Python SDK 0.3 read only one, and get none of these',
    )
  }

  async #deliver(kind: Callback['kind'], url: string, body: EncodedBody): Promise<void> {
    const { rolloutId, apiKey, onAcknowledged } = this.#targets
    if (body.warning !== null) this.#log.warn(`The ${kind} callback leaves out ${body.warning}.`)
    await this.#services.delivery.deliver({
      rolloutId,
      kind,
      url,
      apiKey,
      idempotencyKey: `${rolloutId}/${kind}`,
      body: body.json,
      onAcknowledged,
    })
  }
}
