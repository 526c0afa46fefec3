import { errorMessage, type RolloutSample } from '@osmosis/core'
import { longErrorTextBytes, untilAborted, withTimeLimit } from '@osmosis/core/http'
import type {
  GradingOutcome,
  RolloutEvent,
  RolloutFailure,
  RolloutRequest,
  SamplesById,
  WorkflowOutcome,
} from '@osmosis/protocol'
import type { SecretValues } from '@osmosis/protocol/http'
import {
  readTrajectoryReport,
  writeTrajectories,
  type EndedRollout,
  type PhaseFailure,
  type TrajectoryReport,
} from '@osmosis/protocol/trajectory'

import { ConcurrencyLimiter } from '../execution/slots/concurrency-limiter.ts'
import type { Logger } from '../logging/logger.ts'

/** What trajectory documents need. */
export interface TrajectoryServices {
  readonly logger: Logger
  readonly secrets: SecretValues
}

/** Thousands of results may end at once, and few files can be open. */
const maxWrites = 8
/** Longest time that results and an ending server wait for documents. */
const maxWaitMs = 10_000
const never = new AbortController().signal

/** The trajectory documents of a server. Failures to write them are only logged. */
export class TrajectoryFiles {
  readonly #root: string | undefined
  readonly #services: TrajectoryServices
  readonly #slots = new ConcurrencyLimiter(maxWrites)

  /** @param root - the folder for those of all rollouts; undefined: none are written */
  constructor(root: string | undefined, services: TrajectoryServices) {
    this.#root = root
    this.#services = services
  }

  /** Whether documents are written. */
  get areWritten(): boolean {
    return this.#root !== undefined
  }

  /** @param extraFields - those of the request, by which callers identify their rows */
  begin(request: DocumentedRequest, extraFields: EndedRollout['extraFields']): RolloutTrajectory {
    const root = this.#root
    const write =
      root === undefined
        ? undefined
        : async (rollout: EndedRollout): Promise<void> => this.#write(root, rollout)
    return new RolloutTrajectory(request, extraFields, this.#services, write)
  }

  async #write(root: string, rollout: EndedRollout): Promise<void> {
    const release = await this.#slots.acquire(never)
    try {
      await writeTrajectories(root, rollout)
    } finally {
      release()
    }
  }
}

/** The part of a request that documents contain. */
type DocumentedRequest = Pick<
  RolloutRequest,
  'rolloutId' | 'initialMessages' | 'label' | 'metadata'
>

// Shared, because most rollouts do not change them before they end.
const none: readonly never[] = []
const noSamples = Promise.resolve<EndedRollout['samples']>(new Map())

type WriteFiles = (rollout: EndedRollout) => Promise<void>

/** Collects what the documents of one rollout will contain. Nothing here throws. */
export class RolloutTrajectory {
  readonly #request: DocumentedRequest
  readonly #extraFields: EndedRollout['extraFields']
  readonly #services: TrajectoryServices
  readonly #writeFiles: WriteFiles | undefined
  #failures: readonly PhaseFailure[] = none
  #warnings: readonly string[] = none
  #samples = noSamples
  #report: TrajectoryReport | null = null
  #written: Promise<void> | undefined

  constructor(
    request: DocumentedRequest,
    extraFields: EndedRollout['extraFields'],
    services: TrajectoryServices,
    writeFiles: WriteFiles | undefined,
  ) {
    this.#request = request
    this.#extraFields = extraFields
    this.#services = services
    this.#writeFiles = writeFiles
  }

  /** A stage: collects what passes. */
  readonly saved = (events: AsyncIterable<RolloutEvent>): AsyncIterable<RolloutEvent> =>
    this.#writeFiles === undefined ? events : this.#collect(events)

  async *#collect(events: AsyncIterable<RolloutEvent>): AsyncGenerator<RolloutEvent> {
    for await (const event of events) {
      if (event.type === 'workflow') this.workflowEnded(event.outcome, event.samples)
      else if (event.type === 'graded') this.gradingEnded(event.outcome)
      yield event
    }
  }

  workflowEnded(outcome: WorkflowOutcome, samples?: SamplesById): void {
    this.#warnings = outcome.warnings
    this.#failed('workflow', outcome.failure)
    if (samples?.size) this.#samples = Promise.resolve(samples)
    else if (outcome.partialSamples) this.#samples = outcome.partialSamples
  }

  gradingEnded({ failure, samples }: GradingOutcome): void {
    this.#failed('grading', failure)
    // A grading that failed early has no samples, but the workflow may have reported some.
    if (samples.size > 0) this.#samples = Promise.resolve(samples)
  }

  /** Reads a controller's measurements from its acknowledgement; the latest report counts. */
  acknowledged(body: string): void {
    try {
      this.#report = readTrajectoryReport(body) ?? this.#report
    } catch (error) {
      const line = { rollout_id: this.#request.rolloutId, reason: errorMessage(error) }
      this.#services.logger.warn(line, 'the report in an acknowledgement is malformed; ignored')
    }
  }

  /**
   * Writes the documents, once; later information is not in them. Stops waiting for a slow disk after
   * a limit, because the result must not wait for it.
   */
  async write(): Promise<void> {
    if (this.#writeFiles === undefined) return
    const written = (this.#written ??= this.#writeOnce(this.#writeFiles))
    const limit = { limitMs: maxWaitMs, outer: never, late: () => new Error('too slow') }
    await withTimeLimit(limit, async (signal) => untilAborted(signal, () => written)).catch(() => {
      const line = { rollout_id: this.#request.rolloutId }
      this.#services.logger.warn(
        line,
        'trajectory is still being written; the result does not wait',
      )
    })
  }

  async #writeOnce(writeFiles: WriteFiles): Promise<void> {
    const { rolloutId, initialMessages, label, metadata } = this.#request
    try {
      const samples = await this.#samples
      await writeFiles({
        rolloutId,
        initialMessages,
        label,
        metadata,
        extraFields: this.#extraFields,
        samples: new Map([...samples].map(([id, sample]) => [id, this.#shown(sample)])),
        failures: this.#failures,
        warnings: this.#warnings,
        report: this.#report,
      })
    } catch (error) {
      const line = { rollout_id: rolloutId, error }
      this.#services.logger.warn(line, `trajectory not written: ${errorMessage(error)}`)
    }
  }

  #failed(phase: PhaseFailure['phase'], failure: RolloutFailure | null): void {
    if (failure === null) return
    const { category, message } = failure
    const shown = this.#services.secrets.redactError(message, longErrorTextBytes)
    this.#failures = [...this.#failures, { phase, category, message: shown }]
  }

  /** Errors of HTTP clients may contain keys, and a phase that failed may have set a reward before. */
  #shown(sample: RolloutSample): RolloutSample {
    const { secrets } = this.#services
    const hasFailed = this.#failures.length > 0
    const calls = sample.calls.map((call) =>
      call.error === null ? call : { ...call, error: secrets.redact(call.error) },
    )
    return { ...sample, calls, ...(hasFailed ? { reward: null, stepRewards: null } : {}) }
  }
}
