import type { RolloutSample } from '@osmosis/core'
import {
  stateAfter,
  transitionOf,
  type GradingOutcome,
  type LifecycleState,
  type RolloutEvent,
  type RolloutFailure,
  type RolloutStage,
  type WorkflowOutcome,
} from '@osmosis/protocol'
import type { SecretValues } from '@osmosis/protocol/http'

import type { Logger } from '../logging/logger.ts'
import type { ServerMetrics } from '../metrics/server-metrics.ts'
import type { OwnershipLog } from '../work/ownership-log.ts'

// The stages of a server: what it does with the events of each rollout before they are delivered.

/** Counts rollouts, their phases and their model calls. */
export function counted({
  policy,
  rollouts,
}: Pick<ServerMetrics, 'policy' | 'rollouts'>): RolloutStage {
  return async function* count(events, { grade }) {
    const clock = rollouts.begin()
    for await (const event of events) {
      const isGradedNext = event.type === 'workflow' && grade && event.outcome.failure === null
      if (event.type === 'workflow') countWorkflow(policy, event)
      if (event.type === 'started') clock.enter('workflow')
      else if (isGradedNext) clock.leave()
      else clock.end(event.outcome.failure)
      yield event
      // What the reader does before it asks on is a part of no phase.
      if (isGradedNext) clock.enter('grading')
    }
  }
}

function countWorkflow(
  policy: ServerMetrics['policy'],
  { outcome, samples }: Extract<RolloutEvent, { type: 'workflow' }>,
): void {
  const { partialSamples, otherCalls: calls = [] } = outcome
  countModelCalls(policy, [...samples.values(), { calls }])
  partialSamples
    ?.then((partial) => countModelCalls(policy, partial.values()))
    .catch(() => undefined)
}

/** Counts the model calls of samples. */
export function countModelCalls(
  policy: ServerMetrics['policy'],
  samples: Iterable<Pick<RolloutSample, 'calls'>>,
): void {
  try {
    for (const { calls } of samples) {
      for (const call of calls) policy.count(call)
    }
  } catch {
    // Sources are user code, and counting must not fail a rollout.
  }
}

/** Reports each state of a rollout to the collector that wants to know who owns it. */
export function owned(ownership: OwnershipLog): RolloutStage {
  return async function* own(events, request) {
    const report = ownership.begin(request)
    let status: LifecycleState = 'queued'
    report(status)
    for await (const event of events) {
      const next = stateAfter({ status, isCancelled: false }, transitionOf(event, request.grade))
      if (next !== 'stale' && next !== 'after_cancel') report((status = next))
      yield event
    }
  }
}

/** Logs warnings and failures, and removes secrets from the failures that are delivered. */
export function logged(services: LogServices): RolloutStage {
  return async function* log(events, { rolloutId }) {
    const outcomes = new OutcomeLog(rolloutId, services)
    for await (const event of events) {
      if (event.type === 'workflow') yield { ...event, outcome: outcomes.workflow(event.outcome) }
      else if (event.type === 'graded') yield { ...event, outcome: outcomes.grading(event.outcome) }
      else yield event
    }
  }
}

/** What writing to the log needs. */
export interface LogServices {
  readonly logger: Logger
  readonly secrets: SecretValues
}

/**
 * Writes the outcomes of one rollout to the log, and returns them with secrets removed from the messages of
 * failures: those of HTTP clients may contain keys.
 */
export class OutcomeLog {
  readonly #rolloutId: string
  readonly #services: LogServices

  constructor(rolloutId: string, services: LogServices) {
    this.#rolloutId = rolloutId
    this.#services = services
  }

  warn(warning: string): void {
    this.#services.logger.warn({ rollout_id: this.#rolloutId, warning }, 'rollout warning')
  }

  workflow(outcome: WorkflowOutcome): WorkflowOutcome {
    for (const warning of outcome.warnings) this.warn(warning)
    return { ...outcome, failure: this.#failure('workflow', outcome.failure) }
  }

  grading(outcome: GradingOutcome): GradingOutcome {
    return { ...outcome, failure: this.#failure('grading', outcome.failure) }
  }

  #failure(phase: 'workflow' | 'grading', failure: RolloutFailure | null): RolloutFailure | null {
    if (failure === null) return null
    const { logger, secrets } = this.#services
    const { category, cause, isOfBackend = false } = failure
    const message = secrets.redactError(failure.message)
    const line = { rollout_id: this.#rolloutId, category, error: cause }
    if (isOfBackend) logger.error(line, `backend failed: ${message}`)
    else logger.warn(line, `${phase} failed: ${message}`)
    return { ...failure, message }
  }
}

/** The warning about dropped step rewards. */
export const stepRewardsDropped =
  'the grader sets step rewards, which this trainer need not read: then it trains all model calls of a sample with the one reward of the sample'

const warned = new WeakSet<Logger>()

/** Warns of step rewards that the receiver does not support, once per log: such a grader sets them in every rollout. */
export function warnOfStepRewards(
  rolloutId: string,
  samples: Iterable<Pick<RolloutSample, 'stepRewards'>>,
  logger: Logger,
): void {
  if (warned.has(logger)) return
  for (const { stepRewards } of samples) {
    if (stepRewards === null) continue
    warned.add(logger)
    logger.warn({ rollout_id: rolloutId }, stepRewardsDropped)
    return
  }
}
