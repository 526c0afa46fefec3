import type { OsmosisError } from '@osmosis/core'
import {
  type SamplesById,
  type GradingOutcome,
  type RolloutRequest,
  type WorkflowOutcome,
  endedState,
  endOfPhase,
  lossError,
  type LifecycleEvent,
  type LossReason,
  type RolloutState,
} from '@osmosis/protocol'
import type { CancelDisposition } from '@osmosis/protocol/wire'
import {
  receiveError,
  sendError,
  sendFailure,
  sendWorkflow,
  type SentError,
} from '@osmosis/server/child'
import { toFailure } from '@osmosis/server/execution'

import { runScripts } from './record-scripts.ts'
import { shownCode, storedCode } from './rollout-record.ts'
import type { RolloutRecords } from './rollout-records.ts'
import {
  packSamples,
  snapshotSamples,
  type SampleSnapshot,
  type StoredGradingOutcome,
} from './stored-outcomes.ts'

/** How long a worker has to end a rollout at its deadline before other processes do. Milliseconds. */
const graceMs = 5_000
/** Delay before model calls are counted in a record. Most calls take longer. Milliseconds. */
const countMs = 20
/** How long a worker needs to reconnect to a restarted Redis. Milliseconds. */
const longestReconnectMs = 5_000

/** One execution of a rollout, with its number `run`. */
export interface QueuedExecution {
  readonly id: string
  readonly run: number
}

/** A worker that wants to execute a rollout. */
export interface Taker {
  readonly worker: string
  /** Different for each try, and equal when one try is sent twice. */
  readonly token: string
  readonly code: string
  /** How long a worker may be silent, in milliseconds. */
  readonly lockMs: number
  /** Number of its current execution in this worker. */
  readonly running?: number | undefined
}

/** What a worker must do with a rollout. */
export type TakeAnswer =
  /** Execute it. */
  | {
      readonly what: 'run'
      readonly run: number
      readonly request: RolloutRequest
      readonly mayGrade: boolean
    }
  /** Nothing, because it has ended or its record has expired. */
  | { readonly what: 'ended' }
  /** Try again later, because its worker is alive. */
  | {
      readonly what: 'busy'
      /** When the worker counts as lost without another heartbeat. Milliseconds from now. */
      readonly goneInMs: number
    }
  /** This worker is executing it. */
  | { readonly what: 'mine'; readonly run: number }
  /** It was accepted for other code. */
  | { readonly what: 'other-code'; readonly code: string }
  /** Its request is encrypted with a key that this worker does not have. */
  | { readonly what: 'other-keys' }
  /** Its worker was lost, and it is not executed again for this reason. */
  | { readonly what: 'lost'; readonly run: number; readonly reason: OsmosisError }

/** The result of a write of an execution. */
export type SettleAnswer =
  | 'stored'
  /** Nothing was written, because the execution was abandoned or the rollout has ended. */
  | 'stale'
  /** Nothing was written, because it was a success and the rollout had been cancelled. */
  | 'after_cancel'

/** The fields that are written at the end of a phase. */
interface WrittenPhase {
  readonly outcome: Buffer
  /** Default: none beside the outcome. */
  readonly samples?: Buffer | ''
  readonly event: LifecycleEvent
  readonly end: Pick<RolloutState, 'reward' | 'errorMessage'>
  /** Whether another process writes it, which abandons the execution. Default: false. */
  readonly givesUp?: boolean
  /** Whether more must be written before it can be delivered. Default: false. */
  readonly waits?: boolean
  /** Number of model calls that were not counted before. Default: 0. */
  readonly calls?: number
}

/** Calls a function until it succeeds. */
export type Tries = <T>(ask: () => Promise<T>) => Promise<T>

const once: Tries = async (ask) => ask()

/** The state of a rollout, for the worker that executes it. */
export interface ExecutionState {
  /** Whether this execution is the current one. */
  readonly isCurrent: boolean
  readonly mayGrade: boolean
  /** Why it must end. */
  readonly cancel: OsmosisError | undefined
}

/** Writes of executions to their records. Writes of an abandoned execution are refused. */
export class QueuedExecutions {
  readonly #records: RolloutRecords
  readonly #onUnclaimed: (id: string, hasEnded: boolean) => void
  /** Numbers of model calls that are not in their records yet. */
  readonly #counted = new Map<QueuedExecution, number>()
  /** Whether they will be sent soon. */
  #isCounting = false
  /** The samples that executions of this process have stored for their grading. */
  readonly #left = new WeakMap<QueuedExecution, SampleSnapshot>()

  /** @param onUnclaimed - requests the delivery of an outcome that no server was notified of */
  constructor(records: RolloutRecords, onUnclaimed: (id: string, hasEnded: boolean) => void) {
    this.#records = records
    this.#onUnclaimed = onUnclaimed
  }

  /**
   * Starts the next execution of a rollout, if there is one. When it throws, the same taker has to try again, because it may
   * hold the rollout.
   */
  async take(id: string, taker: Taker): Promise<TakeAnswer> {
    const { since } = this.#records.replication
    const { worker, token, code, lockMs, running } = taker
    const values = [worker, token, storedCode(code), settledAfterMs(lockMs), running ?? 0, graceMs]
    const reply = await this.#records.run(runScripts.take, id, [...values, ...this.#records.heads])
    const [what, first, second, request, mayGrade] = reply as (Buffer | number)[]
    const run = Number(first)
    switch (String(what)) {
      case 'run': {
        // Another worker would start it as well after a failover that lost this.
        await this.#records.replication.confirm(since)
        const opened = this.#records.open(id, 'request', request as Buffer) as RolloutRequest
        const queuedSeconds = (opened.queuedSeconds ?? 0) + Number(second) / 1000
        return {
          what: 'run',
          run,
          request: { ...opened, queuedSeconds },
          mayGrade: mayGrade?.toString() === '1',
        }
      }
      case 'busy':
        return { what: 'busy', goneInMs: Number(second) }
      case 'mine':
        return { what: 'mine', run }
      case 'other-code':
        return { what: 'other-code', code: shownCode(String(first)) }
      case 'other-keys':
        return { what: 'other-keys' }
      case 'lost': {
        const loss = String(second) as LossReason
        const reason =
          loss === 'cancelled'
            ? this.#reason(id, request as Buffer)
            : lossError(whatWasLost(loss, Number(mayGrade)), loss)
        return { what: 'lost', run, reason }
      }
      default:
        return { what: 'ended' }
    }
  }

  /** User code is about to run. */
  async begin({ id, run }: QueuedExecution): Promise<boolean> {
    return Number(await this.#records.runAtOnce(runScripts.begin, id, [run])) === 1
  }

  /**
   * Sets the mark. Resolves with whether the first model call may be sent.
   *
   * @param started - number of model calls that started before it; default: 0
   */
  async mark({ id, run }: QueuedExecution, started = 0): Promise<boolean> {
    const reply = await this.#records.replicated(async () =>
      this.#records.run(runScripts.mark, id, [run, started]),
    )
    return Number(reply) === 1
  }

  /** The worker will not finish the execution, so others need not wait for its lock. */
  async leave({ id, run }: QueuedExecution): Promise<void> {
    await this.#records.run(runScripts.leave, id, [run])
  }

  /** Counts a model call after the mark. It is in the record before the outcome of the workflow. */
  count(of: QueuedExecution): void {
    this.#counted.set(of, (this.#counted.get(of) ?? 0) + 1)
    if (this.#isCounting) return
    this.#isCounting = true
    setTimeout(() => this.#sendCounts(), countMs)
  }

  /**
   * Writes the outcome of the workflow. `grades`: a success is followed by its grading. A failure with
   * `partialSamples` is delivered once {@link QueuedExecutions.settlePartial} has written them.
   *
   * @param of - pass the same object to {@link QueuedExecutions.settleGrading}, which then writes only changes
   * @param tries - repeats the write until it succeeds; default: one try
   */
  async settleWorkflow(
    of: QueuedExecution,
    outcome: WorkflowOutcome,
    samples: SamplesById,
    grades: boolean,
    tries: Tries = once,
  ): Promise<SettleAnswer> {
    const event = endOfPhase('workflow', outcome.failure, grades)
    const end = endedState(outcome.failure, new Map())
    const { packed: blob, isWhole } = packSamples(samples, (stored) =>
      stored.length === 0 ? ('' as const) : this.#records.seal(of.id, 'samples', stored),
    )
    if (isWhole && event === 'workflow_graded') this.#left.set(of, snapshotSamples(samples))
    const sent = this.#records.seal(of.id, 'workflow', sendWorkflow(outcome))
    const waits = outcome.partialSamples !== undefined
    const calls = this.#uncounted(of)
    const written = { event, outcome: sent, samples: blob, end, waits, calls }
    return tries(async () => this.#settle(of, written))
  }

  /** Writes the partial samples of a workflow that failed. */
  async settlePartial({ id, run }: QueuedExecution, samples: SamplesById): Promise<void> {
    const { packed } = packSamples(samples, (stored) => this.#records.seal(id, 'partial', stored))
    const { since } = this.#records.replication
    const reply = await this.#records.run(runScripts.partial, id, [run, packed])
    if (String(reply) === 'unclaimed') this.#onUnclaimed(id, true)
    await this.#records.replication.confirm(since)
  }

  /** @param tries - repeats the write until it succeeds; default: one try */
  async settleGrading(
    of: QueuedExecution,
    { failure, samples }: GradingOutcome,
    tries: Tries = once,
  ): Promise<SettleAnswer> {
    const { packed } = packSamples(
      samples,
      (stored) => this.#sealGrading(of.id, { failure: sendFailure(failure), samples: stored }),
      this.#left.get(of),
    )
    const event = endOfPhase('grading', failure)
    const written = { event, outcome: packed, end: endedState(failure, samples) }
    return tries(async () => this.#settle(of, written))
  }

  /**
   * Fails the current phase of a rollout and abandons its execution, whose later writes are refused. Called by
   * processes other than its worker.
   */
  async giveUp(of: QueuedExecution, reason: OsmosisError): Promise<SettleAnswer> {
    const failure = toFailure(reason)
    const end = endedState(failure, new Map())
    const outcome = { status: 'failure', failure, warnings: [] } as const
    const { status } = (await this.#records.read(of.id)) ?? {}
    if (status !== 'grading') {
      const sent = this.#records.seal(of.id, 'workflow', sendWorkflow(outcome))
      const event = endOfPhase('workflow', failure)
      return this.#settle(of, { event, outcome: sent, end, givesUp: true })
    }
    const sent = this.#sealGrading(of.id, { failure: sendFailure(failure), samples: undefined })
    const event = endOfPhase('grading', failure)
    return this.#settle(of, { event, outcome: sent, end, givesUp: true })
  }

  /** Reads the state of an execution. */
  async look({ id, run }: QueuedExecution): Promise<ExecutionState> {
    const [current, mayGrade, cancel] = await this.#records.ask((redis) =>
      redis.hmgetBuffer(this.#records.key(id), 'run', 'may_grade', 'cancel'),
    )
    return {
      isCurrent: Number(current ?? Number.NaN) === run,
      mayGrade: mayGrade?.toString() === '1',
      cancel: cancel ? this.#reason(id, cancel) : undefined,
    }
  }

  /**
   * Cancels a rollout, immediately while no worker has it, otherwise through its worker.
   *
   * @returns `hasEnded`: whether it has ended, so that its job can be removed
   */
  async cancel(
    id: string,
    reason: OsmosisError,
  ): Promise<{ readonly disposition: CancelDisposition; readonly hasEnded: boolean }> {
    const failure = toFailure(reason)
    const outcome = sendWorkflow({ status: 'failure', failure, warnings: [] })
    const { errorMessage } = endedState(failure, new Map())
    const { since } = this.#records.replication
    const reply = await this.#records.run(runScripts.cancel, id, [
      this.#records.seal(id, 'cancel', sendError(reason)),
      this.#records.seal(id, 'workflow', outcome),
      this.#records.sealError(id, errorMessage),
      endOfPhase('workflow', failure),
    ])
    const [disposition, ended] = reply as Buffer[]
    if (ended?.toString() === 'unclaimed') this.#onUnclaimed(id, true)
    await this.#records.replication.confirm(since)
    return {
      disposition: String(disposition) as CancelDisposition,
      hasEnded: ended !== undefined,
    }
  }

  /** Sends all counts in one message, because messages are expensive. */
  #sendCounts(): void {
    this.#isCounting = false
    const values = [...this.#counted].flatMap(([{ id, run }, calls]) => [id, run, calls])
    this.#counted.clear()
    if (values.length > 0) this.#records.run(runScripts.count, 'any', values).catch(() => {})
  }

  /** Takes the number of model calls of an execution that are not in the record yet. */
  #uncounted(of: QueuedExecution): number {
    const calls = this.#counted.get(of) ?? 0
    this.#counted.delete(of)
    return calls
  }

  async #settle({ id, run }: QueuedExecution, written: WrittenPhase): Promise<SettleAnswer> {
    const { event, outcome, samples = '', end, givesUp = false, waits = false, calls = 0 } = written
    const { since } = this.#records.replication
    const reply = await this.#records.run(runScripts.settle, id, [
      run,
      event,
      outcome,
      samples,
      end.reward ?? '',
      this.#records.sealError(id, end.errorMessage),
      givesUp ? 1 : 0,
      waits ? 1 : 0,
      calls,
    ])
    const settled = String(reply)
    if (settled === 'unclaimed') this.#onUnclaimed(id, event !== 'workflow_graded')
    // A worker that believed a lost outcome to be stored would never store it again.
    await this.#records.replication.confirm(since)
    if (settled === 'unclaimed' || settled === 'stored') return 'stored'
    return settled === 'after_cancel' ? settled : 'stale'
  }

  #sealGrading(id: string, sent: StoredGradingOutcome): Buffer {
    return this.#records.seal(id, 'grading', sent)
  }

  #reason(id: string, blob: Buffer): OsmosisError {
    return receiveError(this.#records.open(id, 'cancel', blob) as SentError) as OsmosisError
  }
}

/** @param calls - number of model calls by all executions */
function whatWasLost(reason: LossReason, calls: number): string {
  const lost = 'the worker was lost'
  if (reason !== 'called_policy') return lost
  return `${lost} after ${calls} model ${calls === 1 ? 'call' : 'calls'}`
}

/**
 * How long Redis must be up before a worker counts as lost: heartbeats could not be renewed while it was
 * down, and workers must reconnect first. Milliseconds.
 */
export function settledAfterMs(lockMs: number): number {
  return lockMs + Math.min(lockMs, longestReconnectMs)
}
