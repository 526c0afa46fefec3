import type {
  GradingOutcome,
  RolloutFailure,
  RolloutState,
  WorkflowOutcome,
} from '@osmosis/runtime'

import type { CompletionCallbackBody, GraderCallbackBody } from '@osmosis/runtime/wire'

import { completionBody, graderBody, type BodyParts, type EncodedBody } from './callback-bodies.ts'
import type { Callback, CallbackDelivery, CallbackRecord } from '../delivery/callback-delivery.ts'
import type { Logger } from '../logging/logger.ts'
import type { SecretValues } from '../logging/secret-values.ts'
import { warnOfStepRewards } from './dropped-step-rewards.ts'
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

/** What callbacks are sent with. */
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
  readonly #record: CallbackRecord | undefined
  readonly #log: OutcomeLog
  #workflowReported = false
  #gradingReported = false

  /** @param record - where the callbacks of this rollout are kept; undefined: in memory alone */
  constructor(
    targets: CallbackTargets,
    services: CallbackServices,
    record: CallbackRecord | undefined,
  ) {
    this.#targets = targets
    this.#services = services
    this.#record = record
    this.#log = new OutcomeLog(targets.rolloutId, services)
  }

  async workflowFinished(outcome: WorkflowOutcome): Promise<void> {
    if (this.#workflowReported) return
    this.#workflowReported = true
    for (const warning of outcome.warnings) this.#log.warn(warning)
    const failure = this.#log.failure('workflow', outcome.failure)
    await this.#deliver(toCompletion(this.#targets, { ...outcome, failure }), () =>
      gradingFailed(this.#targets, failure ?? restarted('being graded')),
    )
  }

  async gradingFinished(outcome: GradingOutcome): Promise<void> {
    const { graderUrl } = this.#targets
    if (this.#gradingReported || graderUrl === null) return
    this.#gradingReported = true
    this.#warnOfSeveral(outcome.samples.size)
    warnOfStepRewards(this.#targets.rolloutId, outcome.samples.values(), this.#services.logger)
    const failure = this.#log.failure('grading', outcome.failure)
    await this.#deliver(toGrader(this.#targets, graderUrl, { ...outcome, failure }), () => [])
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

  async #deliver(
    { callback, warning }: BuiltCallback,
    next: () => readonly Callback[],
  ): Promise<void> {
    if (warning !== null) this.#log.warn(`The ${callback.kind} callback leaves out ${warning}.`)
    const record = this.#record
    const planned = record && { record, ifInterrupted: next() }
    await this.#services.delivery.deliver(callback, planned)
  }
}

/** What is told of a rollout whose server is gone before its workflow has ended. */
export function ifInterrupted(targets: CallbackTargets): Callback[] {
  const failure = restarted('running')
  const completion = toCompletion(targets, { status: 'failure', failure, warnings: [] })
  return [completion.callback, ...gradingFailed(targets, failure)]
}

/** The failure of what a server that is gone did not get to. */
export function restarted(during: 'running' | 'being graded'): RolloutFailure {
  const message = `the rollout server restarted while the rollout was ${during}; run it again under a new id`
  return { message, category: 'agent_error', cause: undefined }
}

/** Where the rollout stands whose last callback this is. */
export function toState({ body }: Callback): RolloutState {
  const { status, err_message, sample } = JSON.parse(body) as CompletionCallbackBody &
    Pick<GraderCallbackBody, 'sample'>
  return { status, reward: sample?.reward ?? null, errorMessage: err_message ?? null }
}

/** A callback as it is built here. */
export interface CallbackInParts extends Callback {
  /** Its body. */
  readonly parts: BodyParts
}

interface BuiltCallback extends Pick<EncodedBody, 'warning'> {
  readonly callback: CallbackInParts
}

function toCompletion(targets: CallbackTargets, outcome: WorkflowOutcome): BuiltCallback {
  const { rolloutId, completionUrl } = targets
  return toCallback(targets, 'completion', completionUrl, completionBody(rolloutId, outcome))
}

function toGrader(targets: CallbackTargets, url: string, outcome: GradingOutcome): BuiltCallback {
  return toCallback(targets, 'grader', url, graderBody(targets.rolloutId, outcome))
}

/** Nothing where nobody waits for a grading. */
function gradingFailed(targets: CallbackTargets, failure: RolloutFailure): Callback[] {
  const { graderUrl } = targets
  if (graderUrl === null) return []
  return [toGrader(targets, graderUrl, { status: 'failure', failure, samples: new Map() }).callback]
}

function toCallback(
  { rolloutId, apiKey, onAcknowledged }: CallbackTargets,
  kind: 'completion' | 'grader',
  url: string,
  { json: body, parts, warning }: EncodedBody,
): BuiltCallback {
  const idempotencyKey = `${rolloutId}/${kind}`
  return {
    callback: { rolloutId, kind, url, apiKey, idempotencyKey, body, parts, onAcknowledged },
    warning,
  }
}
