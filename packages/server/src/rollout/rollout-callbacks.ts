import { inTrace, type TraceHeaders } from '@osmosis/core/http'
import {
  interrupted,
  type GradingOutcome,
  type RolloutEvent,
  type RolloutFailure,
  type RolloutReport,
  type RolloutState,
  type WorkflowOutcome,
} from '@osmosis/protocol'
import type { CompletionCallbackBody, GraderCallbackBody } from '@osmosis/protocol/wire'

import type { CallbackDelivery, CallbackRecord } from '../delivery/callback-delivery.ts'
import type { Callback } from '../journal/outbox-lines.ts'
import type { Logger } from '../logging/logger.ts'
import { completionBody, graderBody, type BodyParts, type EncodedBody } from './callback-bodies.ts'
import { OutcomeLog, warnOfStepRewards, type LogServices } from './server-stages.ts'

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
interface CallbackServices extends LogServices {
  readonly delivery: CallbackDelivery
}

/** How the callbacks of one rollout are delivered. */
export interface CallbackContext {
  readonly targets: CallbackTargets
  readonly services: CallbackServices
  /** Stores the callbacks; undefined: they are only in memory. */
  readonly record: CallbackRecord | undefined
}

/**
 * Delivers the outcomes of a rollout, each in a callback of its own.
 *
 * @param traceHeaders - the trace of the request; the backend may continue it
 */
export async function deliverCallbacks(
  context: CallbackContext,
  events: AsyncIterable<RolloutEvent>,
  traceHeaders: TraceHeaders = {},
): Promise<void> {
  let trace = traceHeaders
  for await (const event of events) {
    if (event.type === 'workflow') {
      trace = event.traceHeaders ?? trace
      const ungraded = gradingOf({ workflow: event.outcome, grading: undefined })
      await inTrace(trace, async () => deliverCompletion(context, event.outcome))
      if (ungraded) await inTrace(trace, async () => deliverGrading(context, ungraded))
    } else if (event.type === 'graded') {
      await inTrace(trace, async () => deliverGrading(context, event.outcome))
    }
  }
}

/** The grading as a caller learns of it: why the workflow failed is also why nothing was graded. */
export function gradingOf({
  workflow: { failure },
  grading,
}: Pick<RolloutReport, 'workflow' | 'grading'>): GradingOutcome | undefined {
  if (failure === null) return grading
  return { status: 'failure', failure, samples: new Map() }
}

/** Delivers the outcome of a workflow: one body, built once. A failed delivery does not change it. */
export async function deliverCompletion(
  context: CallbackContext,
  outcome: WorkflowOutcome,
): Promise<void> {
  const { targets } = context
  await deliver(context, toCompletion(targets, outcome), () =>
    gradingFailed(targets, outcome.failure ?? interrupted('grading')),
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
  await deliver(context, toGrader(targets, graderUrl, outcome), () => [])
}

async function deliver(
  { targets, services, record }: CallbackContext,
  { callback, warning }: BuiltCallback,
  next: () => readonly Callback[],
): Promise<void> {
  if (warning !== null) {
    new OutcomeLog(targets.rolloutId, services).warn(
      `The ${callback.kind} callback leaves out ${warning}.`,
    )
  }
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
