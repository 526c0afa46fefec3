import type { OsmosisError } from '@osmosis/core'
import type { CancelDisposition } from '@osmosis/runtime/wire'
import {
  type SamplesById,
  type GradingOutcome,
  type RolloutRequest,
  type WorkflowOutcome,
  endedState,
  endOfPhase,
  lossError,
  toFailure,
  type LifecycleEvent,
  type LossReason,
  type RolloutState,
} from '@osmosis/runtime'
import { receiveError, sendError, sendFailure, type SentError } from '@osmosis/workers/messages'

import { shownCode, storedCode } from './rollout-record.ts'
import { runScripts } from './record-scripts.ts'
import { snapshotSamples, packSamples, type SampleSnapshot } from './stored-samples.ts'
import type { RolloutRecords } from './rollout-records.ts'
import { storeWorkflow, type StoredGradingOutcome } from './stored-outcomes.ts'

/** For a worker to end a rollout at its deadline, before others do. Milliseconds. */
const graceMs = 5_000
/** Until model calls are counted in a record: most of them take longer. Milliseconds. */
const countMs = 20
/** For a worker to find a Redis that is back. Milliseconds. */
const longestReconnectMs = 5_000

/** One run of a rollout. */
export interface QueuedExecution {
  readonly id: string
  readonly run: number
}

/** Who wants to run a rollout. */
export interface Taker {
  readonly worker: string
  /** Different each time that it tries, and the same when one try is sent twice. */
  readonly token: string
  readonly code: string
  /** How long a worker may be silent, in milliseconds. */
  readonly lockMs: number
  /** Its current execution in this worker. */
  readonly running?: number | undefined
}

/** What a worker is to do with a rollout. */
export type TakeAnswer =
  /** Run it. */
  | {
      readonly what: 'run'
      readonly run: number
      readonly request: RolloutRequest
      readonly mayGrade: boolean
      /** Whether the first model call waits for the front. */
    }
  /** Nothing: it has ended, or its record has expired. */
  | { readonly what: 'ended' }
  /** Its worker lives: look again later. */
  | {
      readonly what: 'busy'
      /** After this it counts as gone, unless it is heard of before. Milliseconds. */
      readonly goneInMs: number
    }
  /** This worker is executing it. */
  | { readonly what: 'mine'; readonly run: number }
  /** It is for other code. */
  | { readonly what: 'other-code'; readonly code: string }
  /** Its worker was lost, and it is not run again, for this reason. */
  | { readonly what: 'lost'; readonly run: number; readonly reason: OsmosisError }

/** What became of something that a run wanted to write. */
export type SettleAnswer =
  | 'kept'
  /** The run was given up, or the rollout has ended: nothing was written. */
  | 'stale'
  /** It was a success, and the rollout was cancelled before: nothing was written. */
  | 'after_cancel'

/** What is written at the end of a phase. */
interface WrittenPhase {
  readonly outcome: Buffer
  /** Default: there are none beside the outcome. */
  readonly samples?: Buffer | ''
  readonly event: LifecycleEvent
  readonly end: Pick<RolloutState, 'reward' | 'errorMessage'>
  /** Whether the run ends with it, and not by its own account. Default: false. */
  readonly givesUp?: boolean
  /** Whether more is written before it can be delivered. Default: false. */
  readonly waits?: boolean
  /** Model calls that were not counted before. Default: none. */
  readonly calls?: number
}

/** Asks something until there is an answer. */
export type Tries = <T>(ask: () => Promise<T>) => Promise<T>

const once: Tries = async (ask) => ask()

/** How a rollout stands, for the worker that runs it. */
export interface ExecutionState {
  /** Whether this run counts. */
  readonly isCurrent: boolean
  readonly mayGrade: boolean
  /** Why it is to be ended. */
  readonly cancel: OsmosisError | undefined
}

/** What executions write to records. Everything from an abandoned execution is refused. */
export class QueuedExecutions {
  readonly #records: RolloutRecords
  readonly #onUnclaimed: (id: string, hasEnded: boolean) => void
  /** Model calls that are to be counted, by run. */
  readonly #counted = new Map<QueuedExecution, number>()
  /** Whether they are about to be. */
  #isCounting = false
  /** The stored samples that executions of this process have left to be graded. */
  readonly #left = new WeakMap<QueuedExecution, SampleSnapshot>()

  /** @param unclaimed - requests the delivery of an outcome that no server was notified of */
  constructor(records: RolloutRecords, unclaimed: (id: string, hasEnded: boolean) => void) {
    this.#records = records
    this.#onUnclaimed = unclaimed
  }

  /** Begins the next run of a rollout, if there is to be one. */
  async take(id: string, taker: Taker): Promise<TakeAnswer> {
    const { worker, token, code, lockMs, running } = taker
    const values = [worker, token, storedCode(code), settledAfterMs(lockMs), running ?? 0, graceMs]
    const reply = await this.#records.run(runScripts.take, id, values)
    const [what, first, second, request, mayGrade] = reply as (Buffer | number)[]
    const run = Number(first)
    switch (String(what)) {
      case 'run': {
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
   * The mark: resolves with whether the first model call may leave.
   *
   * @param started - model calls that started before it; default: 0
   */
  async mark({ id, run }: QueuedExecution, started = 0): Promise<boolean> {
    return Number(await this.#records.run(runScripts.mark, id, [run, started])) === 1
  }

  /** The run is not finished by its worker, which is not waited for any more. */
  async leave({ id, run }: QueuedExecution): Promise<void> {
    await this.#records.run(runScripts.leave, id, [run])
  }

  /** A model call has started, after the mark. Counted soon, and before the outcome of the workflow. */
  count(of: QueuedExecution): void {
    this.#counted.set(of, (this.#counted.get(of) ?? 0) + 1)
    if (this.#isCounting) return
    this.#isCounting = true
    setTimeout(() => this.#sendCounts(), countMs)
  }

  /**
   * Writes the outcome of the workflow. `grades`: a success is followed by its grading. A failure with
   * `partialSamples` is delivered when {@link QueuedExecutions.settlePartial} has written these.
   *
   * @param of - to be given to {@link QueuedExecutions.settleGrading} as well, which writes only what is new then
   * @param tries - asks until there is an answer; default: once
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
    const { packed: blob, isWhole } = packSamples(samples, (kept) =>
      kept.length === 0 ? ('' as const) : this.#records.seal(of.id, 'samples', kept),
    )
    if (isWhole && event === 'workflow_graded') this.#left.set(of, snapshotSamples(samples))
    const sent = this.#records.seal(of.id, 'workflow', storeWorkflow(outcome))
    const waits = outcome.partialSamples !== undefined
    const calls = this.#uncounted(of)
    const written = { event, outcome: sent, samples: blob, end, waits, calls }
    return tries(async () => this.#settle(of, written))
  }

  /** Writes what was said in a workflow that failed. */
  async settlePartial({ id, run }: QueuedExecution, samples: SamplesById): Promise<void> {
    const { packed } = packSamples(samples, (kept) => this.#records.seal(id, 'partial', kept))
    const reply = await this.#records.run(runScripts.partial, id, [run, packed])
    if (String(reply) === 'unclaimed') this.#onUnclaimed(id, true)
  }

  /** @param tries - asks until there is an answer; default: once */
  async settleGrading(
    of: QueuedExecution,
    { failure, samples }: GradingOutcome,
    tries: Tries = once,
  ): Promise<SettleAnswer> {
    const { packed } = packSamples(
      samples,
      (kept) => this.#sealGrading(of.id, { failure: sendFailure(failure), samples: kept }),
      this.#left.get(of),
    )
    const event = endOfPhase('grading', failure)
    const written = { event, outcome: packed, end: endedState(failure, samples) }
    return tries(async () => this.#settle(of, written))
  }

  /**
   * Ends the phase that a rollout is in with a failure, and its run with it: whatever that still
   * writes is refused. To be called by others than its worker.
   */
  async giveUp(of: QueuedExecution, reason: OsmosisError): Promise<SettleAnswer> {
    const failure = toFailure(reason)
    const end = endedState(failure, new Map())
    const outcome = { status: 'failure', failure, warnings: [] } as const
    const { status } = (await this.#records.read(of.id)) ?? {}
    if (status !== 'grading') {
      const sent = this.#records.seal(of.id, 'workflow', storeWorkflow(outcome))
      const event = endOfPhase('workflow', failure)
      return this.#settle(of, { event, outcome: sent, end, givesUp: true })
    }
    const sent = this.#sealGrading(of.id, { failure: sendFailure(failure), samples: undefined })
    const event = endOfPhase('grading', failure)
    return this.#settle(of, { event, outcome: sent, end, givesUp: true })
  }

  /** How a run stands; see {@link ExecutionState}. */
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
   * Cancels a rollout: at once while no worker has it, otherwise through its worker.
   *
   * @returns `hasEnded`: its job is of no use any more
   */
  async cancel(
    id: string,
    reason: OsmosisError,
  ): Promise<{ readonly disposition: CancelDisposition; readonly hasEnded: boolean }> {
    const failure = toFailure(reason)
    const outcome = storeWorkflow({ status: 'failure', failure, warnings: [] })
    const { errorMessage } = endedState(failure, new Map())
    const reply = await this.#records.run(runScripts.cancel, id, [
      this.#records.seal(id, 'cancel', sendError(reason)),
      this.#records.seal(id, 'workflow', outcome),
      this.#records.sealError(id, errorMessage),
      endOfPhase('workflow', failure),
    ])
    const [disposition, ended] = reply as Buffer[]
    if (ended?.toString() === 'unclaimed') this.#onUnclaimed(id, true)
    return {
      disposition: String(disposition) as CancelDisposition,
      hasEnded: ended !== undefined,
    }
  }

  /** Together: each message of its own costs more than what it says. */
  #sendCounts(): void {
    this.#isCounting = false
    const values = [...this.#counted].flatMap(([{ id, run }, calls]) => [id, run, calls])
    this.#counted.clear()
    if (values.length > 0) this.#records.run(runScripts.count, 'any', values).catch(() => {})
  }

  /** What is still to be counted of a run. */
  #uncounted(of: QueuedExecution): number {
    const calls = this.#counted.get(of) ?? 0
    this.#counted.delete(of)
    return calls
  }

  async #settle({ id, run }: QueuedExecution, written: WrittenPhase): Promise<SettleAnswer> {
    const { event, outcome, samples = '', end, givesUp = false, waits = false, calls = 0 } = written
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
    if (settled === 'unclaimed' || settled === 'kept') return 'kept'
    return settled === 'after_cancel' ? settled : 'stale'
  }

  #sealGrading(id: string, sent: StoredGradingOutcome): Buffer {
    return this.#records.seal(id, 'grading', sent)
  }

  #reason(id: string, blob: Buffer): OsmosisError {
    return receiveError(this.#records.open(id, 'cancel', blob) as SentError) as OsmosisError
  }
}

/** @param calls - of the policy, by all executions */
function whatWasLost(reason: LossReason, calls: number): string {
  const lost = 'the worker was lost'
  if (reason !== 'called_policy') return lost
  return `${lost} after ${calls} model ${calls === 1 ? 'call' : 'calls'}`
}

/**
 * How long Redis has to be up before a worker counts as lost: while it was down no heartbeat
 * could be renewed, and then workers have to find it again. Milliseconds.
 */
export function settledAfterMs(lockMs: number): number {
  return lockMs + Math.min(lockMs, longestReconnectMs)
}
