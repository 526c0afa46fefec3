import type { SamplesById, GradingOutcome, RolloutFailure, WorkflowOutcome } from '@osmosis/runtime'
import type { RolloutSample } from '@osmosis/core'
import type { RolloutStatus } from '@osmosis/runtime/wire'

import type { ServerMetrics } from '../metrics/server-metrics.ts'
import { toBackendFailure, type ResultDelivery } from './result-delivery.ts'

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
