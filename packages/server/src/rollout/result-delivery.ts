import { errorCategory, errorMessage, type RolloutSample } from '@osmosis/core'
import type {
  GradingOutcome,
  RolloutFailure,
  RolloutObserver,
  SamplesById,
  WorkflowOutcome,
} from '@osmosis/runtime'

import type { RolloutStatus } from '@osmosis/runtime/wire'

import type { Logger } from '../logging/logger.ts'
import type { SecretValues } from '../logging/secret-values.ts'
import type { ServerMetrics } from '../metrics/server-metrics.ts'

/**
 * The way of one rollout's results to whoever asked for it. Execution reports to it and knows no
 * more of it; nothing here rejects.
 */
export interface ResultDelivery extends RolloutObserver {
  /** Whether all that the caller waits for has been reported. */
  readonly complete: boolean
  /** Reports what the backend did not: it broke, or came back without a result. */
  backendEnded(error: unknown): Promise<void>
}

/** What a rollout has come to, and has to be delivered. */
export interface PendingDelivery {
  readonly workflow: WorkflowOutcome
  /** What the workflow gave. */
  readonly samples: SamplesById
  /** Undefined until there is one, and when nobody waits for it. */
  readonly grading: GradingOutcome | undefined
}

/** A failure of the backend. */
export function toBackendFailure(error: unknown): RolloutFailure {
  return { message: errorMessage(error), category: errorCategory(error), cause: error }
}

/** Writes the outcomes of one rollout to the log. */
export class OutcomeLog {
  readonly #rolloutId: string
  readonly #logger: Logger
  readonly #secrets: SecretValues

  constructor(rolloutId: string, services: { logger: Logger; secrets: SecretValues }) {
    this.#rolloutId = rolloutId
    this.#logger = services.logger
    this.#secrets = services.secrets
  }

  warn(warning: string): void {
    this.#logger.warn({ rollout_id: this.#rolloutId, warning }, 'rollout warning')
  }

  /** The failure with its secrets removed: messages of HTTP clients have been seen to carry keys. */
  failure(phase: 'workflow' | 'grading', failure: RolloutFailure | null): RolloutFailure | null {
    if (failure === null) return null
    const { category, cause } = failure
    const message = this.#secrets.redactError(failure.message)
    const line = { rollout_id: this.#rolloutId, category, error: cause }
    this.#logger.warn(line, `${phase} failed: ${message}`)
    return { message, category, cause }
  }
}

/** Reports to whoever waits in this process, with secrets removed. */
export class AwaitedDelivery implements ResultDelivery {
  readonly #observer: RolloutObserver
  readonly #log: OutcomeLog
  #failed = false
  complete = false

  constructor(
    rolloutId: string,
    observer: RolloutObserver,
    services: { logger: Logger; secrets: SecretValues },
  ) {
    this.#observer = observer
    this.#log = new OutcomeLog(rolloutId, services)
  }

  phaseChanged(phase: 'running' | 'grading'): void {
    this.#observer.phaseChanged?.(phase)
  }

  async workflowFinished(
    outcome: WorkflowOutcome,
    samples?: ReadonlyMap<string, RolloutSample>,
  ): Promise<void> {
    for (const warning of outcome.warnings) this.#log.warn(warning)
    const failure = this.#log.failure('workflow', outcome.failure)
    this.#failed = failure !== null
    await this.#observer.workflowFinished({ ...outcome, failure }, samples)
  }

  async gradingFinished(outcome: GradingOutcome): Promise<void> {
    this.complete = true
    // A workflow that failed is reported again as the reason why nothing was graded.
    const failure = this.#failed ? outcome.failure : this.#log.failure('grading', outcome.failure)
    await this.#observer.gradingFinished({ ...outcome, failure })
  }

  async backendEnded(error: unknown): Promise<void> {
    const failure = toBackendFailure(error)
    await this.workflowFinished({ status: 'failure', failure, warnings: [] })
    this.complete = true
  }
}

/** Counts what is reported of one rollout, and tells who has it, before it passes it on. */
export class CountedDelivery implements ResultDelivery {
  readonly #delivery: ResultDelivery
  readonly #metrics: Pick<ServerMetrics, 'policy'>
  readonly #clock: ReturnType<ServerMetrics['rollouts']['begin']>
  readonly #graded: boolean
  readonly #report: (status: RolloutStatus) => void

  constructor(
    delivery: ResultDelivery,
    metrics: Pick<ServerMetrics, 'policy' | 'rollouts'>,
    graded: boolean,
    report: (status: RolloutStatus) => void = () => undefined,
  ) {
    this.#report = report
    report('queued')
    this.#delivery = delivery
    this.#metrics = metrics
    this.#clock = metrics.rollouts.begin()
    this.#graded = graded
  }

  get complete(): boolean {
    return this.#delivery.complete
  }

  phaseChanged(phase: 'running' | 'grading'): void {
    if (phase === 'running') this.#clock.enter('workflow')
    this.#report(phase)
    this.#delivery.phaseChanged?.(phase)
  }

  async workflowFinished(
    outcome: WorkflowOutcome,
    samples: SamplesById = new Map(),
  ): Promise<void> {
    const { failure, partialSamples, otherCalls = [] } = outcome
    const { policy } = this.#metrics
    countModelCalls(policy, [...samples.values(), { calls: otherCalls }])
    partialSamples
      ?.then((partial) => countModelCalls(policy, partial.values()))
      .catch(() => undefined)
    if (failure !== null || !this.#graded) this.#end(failure)
    else this.#clock.leave()
    await this.#delivery.workflowFinished(outcome, samples)
    if (failure === null && this.#graded) this.#clock.enter('grading')
  }

  async gradingFinished(outcome: GradingOutcome): Promise<void> {
    this.#end(outcome.failure)
    await this.#delivery.gradingFinished(outcome)
  }

  async backendEnded(error: unknown): Promise<void> {
    this.#end(toBackendFailure(error))
    await this.#delivery.backendEnded(error)
  }

  #end(failure: RolloutFailure | null): void {
    const outcome = this.#clock.end(failure)
    if (outcome !== undefined) this.#report(outcome)
  }
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
    // Sources are user code, and a figure is not worth a rollout.
  }
}

/** What the log says when step rewards go no further. */
export const stepRewardsDropped =
  'the grader sets step rewards, which are dropped on the way to this trainer: it trains all model calls of a sample with the one reward of the sample'

const warned = new WeakSet<Logger>()

/**
 * Warns of step rewards that whoever gets the result does not take. Once for each log: a grader that sets
 * them does so in every rollout.
 */
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
