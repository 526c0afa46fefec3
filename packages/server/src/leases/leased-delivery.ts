import { isOsmosisError } from '@osmosis/core'
import type { SamplesById, GradingOutcome, RolloutFailure, WorkflowOutcome } from '@osmosis/runtime'
import type { LeasedErrorCategory, LeasedResultBody } from '@osmosis/runtime/wire'

import type { Logger } from '../logging/logger.ts'
import type { SecretValues } from '../logging/secret-values.ts'
import { encodeSamples, onlyOne, type EncodedBody } from '../rollout/callback-bodies.ts'
import { warnOfStepRewards } from '../rollout/dropped-step-rewards.ts'
import { OutcomeLog, toBackendFailure, type ResultDelivery } from '../rollout/result-delivery.ts'
import type { LeasedEnd, LeasedRollout } from './leased-rollout.ts'

/** What a delivery knows of a lease, wherever that is kept. */
export type DeliveredLease = Pick<
  LeasedRollout,
  'rolloutId' | 'cancelled' | 'decided' | 'advance' | 'decide' | 'publish'
>

/** What the delivery of a leased result works with. */
export interface LeasedDeliveryOptions {
  /** Whether the result is that of the grading. */
  readonly graded: boolean
  /** Writes what has to be there when the result is; in bounded time, and never rejects. */
  readonly keep: () => Promise<void>
  readonly logger: Logger
  readonly secrets: SecretValues
  /** Asks the backend to stop a rollout whose end is decided. */
  readonly stop: (rolloutId: string) => void
}

interface LeasedOutcome {
  readonly status: LeasedEnd['status']
  readonly failure: LeasedFailure | null
  readonly samples: SamplesById
}

interface LeasedFailure {
  readonly message: string | null
  readonly category: LeasedErrorCategory | null
}

/** Turns the outcomes of one rollout into the one result that its caller fetches. */
export class LeasedDelivery implements ResultDelivery {
  readonly #lease: DeliveredLease
  readonly #options: LeasedDeliveryOptions
  readonly #log: OutcomeLog

  constructor(lease: DeliveredLease, options: LeasedDeliveryOptions) {
    this.#lease = lease
    this.#options = options
    this.#log = new OutcomeLog(lease.rolloutId, options)
  }

  phaseChanged(phase: 'running' | 'grading'): void {
    this.#lease.advance(phase)
    this.#stopWhenOver()
  }

  async workflowFinished(
    outcome: WorkflowOutcome,
    samples: SamplesById = new Map(),
  ): Promise<void> {
    for (const warning of outcome.warnings) this.#log.warn(warning)
    const failure = this.#log.failure('workflow', outcome.failure)
    if (outcome.status === 'failure') await this.#finish('failure', failure, new Map())
    else if (!this.#options.graded || this.#lease.cancelled)
      await this.#finish('success', null, samples)
    this.#stopWhenOver()
  }

  async gradingFinished({ status, failure, samples }: GradingOutcome): Promise<void> {
    if (this.#lease.decided) return
    warnOfStepRewards(this.#lease.rolloutId, samples.values(), this.#options.logger)
    await this.#finish(status, this.#log.failure('grading', failure), samples)
  }

  async backendEnded(error: unknown): Promise<void> {
    const failure = toBackendFailure(error)
    if (this.#lease.cancelled) return this.#finish('failure', failure, new Map())
    const message = this.#options.secrets.redactError(failure.message)
    await this.#publish({
      status: 'failure',
      failure: { message, category: 'internal_error' },
      samples: new Map(),
    })
  }

  get complete(): boolean {
    return this.#lease.decided
  }

  async #finish(
    status: 'success' | 'failure',
    failure: RolloutFailure | null,
    samples: SamplesById,
  ): Promise<void> {
    const cause = failure?.cause
    if (this.#lease.cancelled || (isOsmosisError(cause) && cause.code === 'cancelled')) {
      const message = this.#lease.cancelled === 'cancelled_queued' ? null : 'cancelled'
      await this.#publish({ status: 'cancelled', failure: { message, category: null }, samples })
    } else if (status === 'success' && samples.size > 1) {
      const message = tooManySamples(samples)
      this.#log.warn(message)
      const category = 'validation_error'
      await this.#publish({ status: 'failure', failure: { message, category }, samples })
    } else {
      await this.#publish({ status, failure, samples })
    }
  }

  /** The first result is the only one. What has to be kept with it is kept before it is published. */
  async #publish({ status, failure, samples }: LeasedOutcome): Promise<void> {
    if (!this.#lease.decide()) return
    // Encoded before anything is waited for: user code may still hold the samples.
    const end = toLeasedEnd(this.#lease.rolloutId, { status, failure, samples })
    if (end.warning !== null) this.#log.warn(`The result leaves out ${end.warning}.`)
    await this.#options.keep()
    await this.#lease.publish(end)
  }

  /** A backend that did not know the rollout when it was to be stopped knows it by now. */
  #stopWhenOver(): void {
    const { cancelled, decided, rolloutId } = this.#lease
    if (cancelled !== undefined || decided) this.#options.stop(rolloutId)
  }
}

/** The end of a leased rollout, encoded. */
export function toLeasedEnd(
  rolloutId: string,
  { status, failure, samples }: LeasedOutcome,
): LeasedEnd & Pick<EncodedBody, 'warning'> {
  const errorMessage = failure?.message ?? null
  let reward: number | null = null
  const { json, warning } = encodeSamples({ status, samples }, (bodies) => {
    const sample = onlyOne(bodies)
    reward = sample?.reward ?? null
    return {
      rollout_id: rolloutId,
      status,
      sample,
      err_message: errorMessage,
      err_category: failure?.category ?? null,
    } satisfies LeasedResultBody
  })
  return { status, reward, errorMessage, json, warning }
}

function tooManySamples(samples: SamplesById): string {
  const names = [...samples.keys()].join(', ')
  return `The rollout has ${samples.size} samples (${names}), and a result that is fetched has room for one. Register one sample, or have the results sent to callback URLs.`
}
