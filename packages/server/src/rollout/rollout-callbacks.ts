import {
  interrupted,
  type GradingOutcome,
  type RolloutFailure,
  type RolloutState,
  type WorkflowOutcome,
} from '@osmosis/protocol'

import type { CompletionCallbackBody, GraderCallbackBody } from '@osmosis/protocol/wire'

import { completionBody, graderBody, type BodyParts, type EncodedBody } from './callback-bodies.ts'
import type { CallbackDelivery, CallbackRecord } from '../delivery/callback-delivery.ts'
import type { Callback } from '../journal/outbox-lines.ts'
import type { Logger } from '../logging/logger.ts'
import type { SecretValues } from '@osmosis/protocol/http'
import {
  OutcomeLog,
  toBackendFailure,
  warnOfStepRewards,
  type ResultDelivery,
} from './result-delivery.ts'

/** Where the results of one rollout are sent. */
export interface CallbackTargets {
  readonly rolloutId: string
  readonly completionUrl: string
  /** Null: the rollout is not graded. */
  readonly graderUrl: string | null
  readonly apiKey: string | null
  /** Gets the bodies of acknowledgements. */
  readonly onAcknowledged?: ((body: string) => void) | undefined
}

/** What sends the callbacks. */
interface CallbackServices {
  readonly delivery: CallbackDelivery
  readonly logger: Logger
  readonly secrets: SecretValues
}

/** How the callbacks of one rollout are delivered. */
export interface CallbackContext {
  readonly targets: CallbackTargets
  readonly services: CallbackServices
  /** Stores the callbacks; undefined: they are only in memory. */
  readonly record: CallbackRecord | undefined
}

/** Delivers the outcome of a workflow: one body, built once. A failed delivery does not change it. */
export async function deliverCompletion(
  context: CallbackContext,
  outcome: WorkflowOutcome,
): Promise<void> {
  const { targets, services } = context
  const log = new OutcomeLog(targets.rolloutId, services)
  for (const warning of outcome.warnings) log.warn(warning)
  const failure = log.failure('workflow', outcome.failure)
  await deliver(context, log, toCompletion(targets, { ...outcome, failure }), () =>
    gradingFailed(targets, failure ?? interrupted('grading')),
  )
}

/** Delivers the outcome of a grading, unless the caller requested none. */
export async function deliverGrading(
  context: CallbackContext,
  outcome: GradingOutcome,
): Promise<void> {
  const { targets, services } = context
  const { rolloutId, graderUrl } = targets
  if (graderUrl === null) return
  warnOfSeveral(rolloutId, outcome.samples.size, services.logger)
  warnOfStepRewards(rolloutId, outcome.samples.values(), services.logger)
  const log = new OutcomeLog(rolloutId, services)
  const failure = log.failure('grading', outcome.failure)
  await deliver(context, log, toGrader(targets, graderUrl, { ...outcome, failure }), () => [])
}

async function deliver(
  { services, record }: CallbackContext,
  log: OutcomeLog,
  { callback, warning }: BuiltCallback,
  next: () => readonly Callback[],
): Promise<void> {
  if (warning !== null) log.warn(`The ${callback.kind} callback leaves out ${warning}.`)
  await services.delivery.deliver(callback, record && { record, ifInterrupted: next() })
}

const warnedOfSeveral = new WeakSet<Logger>()

/** Once per server: a workflow with several samples has them in every rollout. */
function warnOfSeveral(rolloutId: string, samples: number, logger: Logger): void {
  if (samples < 2 || warnedOfSeveral.has(logger)) return
  warnedOfSeveral.add(logger)
  logger.warn(
    { rollout_id: rolloutId, samples },
    'several samples in one rollout: callers of the Python SDK 0.3 read only one, and get none of these',
  )
}

/** Delivers what a backend of this process reports, each outcome once. Nothing here rejects. */
export class RolloutCallbacks implements ResultDelivery {
  readonly #context: CallbackContext
  #workflowReported = false
  #gradingReported = false

  constructor(context: CallbackContext) {
    this.#context = context
  }

  async workflowFinished(outcome: WorkflowOutcome): Promise<void> {
    if (this.#workflowReported) return
    this.#workflowReported = true
    await deliverCompletion(this.#context, outcome)
  }

  async gradingFinished(outcome: GradingOutcome): Promise<void> {
    if (this.#gradingReported) return
    this.#gradingReported = true
    await deliverGrading(this.#context, outcome)
  }

  async backendEnded(error: unknown): Promise<void> {
    const failure = toBackendFailure(error)
    await this.workflowFinished({ status: 'failure', failure, warnings: [] })
    await this.gradingFinished({ status: 'failure', failure, samples: new Map() })
  }

  get complete(): boolean {
    const isGraded = this.#context.targets.graderUrl !== null
    return this.#workflowReported && (this.#gradingReported || !isGraded)
  }
}

/** The callbacks of a rollout whose server exited before its workflow ended. */
export function ifInterrupted(targets: CallbackTargets): Callback[] {
  const failure = interrupted('running')
  const completion = toCompletion(targets, { status: 'failure', failure, warnings: [] })
  return [completion.callback, ...gradingFailed(targets, failure)]
}

/** The state of a rollout after this last callback. */
export function toState({ body }: Callback): RolloutState {
  const { status, err_message, sample } = JSON.parse(body) as CompletionCallbackBody &
    Pick<GraderCallbackBody, 'sample'>
  return { status, reward: sample?.reward ?? null, errorMessage: err_message ?? null }
}

/** A callback that was built here. */
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

/** Empty when the caller requested no grading. */
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
