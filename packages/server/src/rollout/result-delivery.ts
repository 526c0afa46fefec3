import { errorCategory, errorMessage, type RolloutSample } from '@osmosis/core'
import type {
  GradingOutcome,
  RolloutFailure,
  RolloutObserver,
  SamplesById,
  WorkflowOutcome,
  ExecutionBackend,
} from '@osmosis/protocol'
import type { RolloutStatus } from '@osmosis/protocol/wire'

import type { Logger } from '../logging/logger.ts'
import type { SecretValues } from '@osmosis/protocol/http'
import type { ServerMetrics } from '../metrics/server-metrics.ts'
import { replaceMethods } from '../execution/replaced-methods.ts'
import type { OwnershipLog } from '../work/ownership-log.ts'

/**
 * Delivers the results of one rollout to its caller. The backend reports to it through the observer;
 * nothing here rejects.
 */
export interface ResultDelivery extends RolloutObserver {
  /** Whether all that the caller waits for has been reported. */
  readonly complete: boolean
  /** Called when the backend failed, or returned without a result. */
  backendEnded(error: unknown): Promise<void>
}

/** The outcomes of a rollout that have to be delivered. */
export interface PendingDelivery {
  readonly workflow: WorkflowOutcome
  /** The samples of the workflow. */
  readonly samples: SamplesById
  /** Undefined while there is none, and when the caller does not need it. */
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

  /** Logs the failure, and returns it with secrets removed: messages of HTTP clients may contain keys. */
  failure(phase: 'workflow' | 'grading', failure: RolloutFailure | null): RolloutFailure | null {
    if (failure === null) return null
    const { category, cause } = failure
    const message = this.#secrets.redactError(failure.message)
    const line = { rollout_id: this.#rolloutId, category, error: cause }
    this.#logger.warn(line, `${phase} failed: ${message}`)
    return { message, category, cause }
  }
}

/** Reports to a caller that waits in this process, with secrets removed. */
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
    // A workflow failure is reported again as the reason why nothing was graded.
    const failure = this.#failed ? outcome.failure : this.#log.failure('grading', outcome.failure)
    await this.#observer.gradingFinished({ ...outcome, failure })
  }

  async backendEnded(error: unknown): Promise<void> {
    const failure = toBackendFailure(error)
    await this.workflowFinished({ status: 'failure', failure, warnings: [] })
    this.complete = true
  }
}

/** Counts the outcomes of one rollout and reports its ownership, then passes them on. */
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
    // Sources are user code, and counting must not fail a rollout.
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

/**
 * The same backend, whose rollouts are counted and whose ownership is reported as those of a server: for workers that get
 * their rollouts from elsewhere.
 */
export function countedBackend(
  backend: ExecutionBackend,
  metrics: Pick<ServerMetrics, 'policy' | 'rollouts'>,
  ownership: OwnershipLog | undefined,
): ExecutionBackend {
  return replaceMethods(backend, {
    async execute(request, observer) {
      const { grade } = request
      const report = ownership?.begin(request)
      const counted = new CountedDelivery(passedOn(observer), metrics, grade, report)
      const counting = replaceMethods<RolloutObserver>(observer, {
        phaseChanged: (phase) => counted.phaseChanged(phase),
        workflowFinished: async (outcome, samples) => counted.workflowFinished(outcome, samples),
        gradingFinished: async (outcome) => counted.gradingFinished(outcome),
      })
      // Has no effect on a rollout whose outcome was reported.
      let problem: unknown = new Error('The backend ended the rollout without a result.')
      try {
        await backend.execute(request, counting)
      } catch (error) {
        problem = error
        throw error
      } finally {
        await counted.backendEnded(problem)
      }
    },
  })
}

/** The caller of `execute` learns from its own observer whether all was reported. */
function passedOn(observer: RolloutObserver): ResultDelivery {
  return {
    complete: false,
    phaseChanged: (phase) => observer.phaseChanged?.(phase),
    workflowFinished: async (outcome, samples) => observer.workflowFinished(outcome, samples),
    gradingFinished: async (outcome) => observer.gradingFinished(outcome),
    backendEnded: async () => {},
  }
}
