import { existsSync } from 'node:fs'
import path from 'node:path'
import { getHeapStatistics } from 'node:v8'
import { Worker } from 'node:worker_threads'

import { errorMessage, OsmosisError, type StartingModelCall } from '@osmosis/core'
import { beginningOf, errorTextBytes, untilAborted } from '@osmosis/core/http'
import type { ModelCallGates, RolloutEvent } from '@osmosis/protocol'

import { exitDespiteThreads } from '../containment/blocked-threads.ts'
import {
  type Containment,
  containUserCode,
  ignoreBrokenPipe,
  keepListeners,
} from '../containment/contain-user-code.ts'
import { codePlace } from '../containment/error-place.ts'
import { LocalBackend, type LocalBackendOptions } from '../execution/local-backend.ts'
import { concurrencyLimits } from '../execution/slots/concurrency-limits.ts'
import { reportExit, reportEveryExit } from './exit-report.ts'
import type { GuardData } from './guard-thread.ts'
import { ParentChannel, type LaterMessage } from './parent-channel.ts'
import { sendSamples } from './portable-values.ts'
import { sendError, receiveError, type SentError } from './sent-errors.ts'
import { sendEvent, sendFailure } from './sent-events.ts'
import type { WorkerRollouts } from './worker-messages.ts'

/** What a child process does. */
export interface WorkerEntrypoint<TWorkflowConfig = unknown, TGraderConfig = unknown> {
  /** Executes the rollouts of a pool. Default: the process only answers questions. */
  readonly backend?: LocalBackendOptions<TWorkflowConfig, TGraderConfig>
  /** Plain data about the entrypoint, which the parent receives when it is loaded. Default: null. */
  readonly facts?: unknown
  /** Answers a question of the parent. Default: questions are refused. */
  readonly answer?: (question: unknown) => Promise<unknown>
  /** Called for an error that belongs to no rollout. Default: the process exits with 1. */
  readonly onStrayError?: Containment['onUnattributed']
  /** Called before the process exits because its parent wants that. */
  readonly close?: () => Promise<void>
}

/** How long a process that must exit waits until its last results are sent. */
const lastResultsMs = 1000

/**
 * Makes this process a worker of the one that started it: loads user code, executes the rollouts and answers the
 * questions that the parent sends, and exits with the parent. Called once, by the module that `createWorkerPool` or
 * `startUserCode` starts.
 *
 * @param load - loads the entrypoint; when it rejects, the parent gets the error
 */
export async function runWorker<TWorkflowConfig, TGraderConfig>(
  load: () => Promise<WorkerEntrypoint<TWorkflowConfig, TGraderConfig>>,
): Promise<void> {
  const channel = new ParentChannel()
  let onStrayError: Containment['onUnattributed'] = (error) => exitAfterError(error, channel)
  reportEveryExit()
  exitDespiteThreads()
  containUserCode({ onUnattributed: (error, origin) => onStrayError(error, origin) })
  leaveSignalsToParent()
  ignoreBrokenPipe()
  // A worker needs its listeners even if user code removes them.
  keepListeners(() => true)
  const { beatMs, maxMemoryBytes } = await channel.watched
  startGuard(maxMemoryBytes)
  setInterval(() => channel.beat(), beatMs).unref()
  channel.letGo()
  try {
    const entrypoint = await load()
    const { backend, facts = null } = entrypoint
    const { runs, rollouts } = backend === undefined ? {} : executionsOf(backend, channel)
    onStrayError = entrypoint.onStrayError ?? onStrayError
    channel.hold()
    channel.onMessage((message) => handle(message, { channel, runs, entrypoint }))
    channel.post({ type: 'ready', rollouts, facts })
  } catch (error) {
    await channel.written({ type: 'refused', error: sendError(error) })
    process.exit(1)
  }
}

function executionsOf<TWorkflowConfig, TGraderConfig>(
  options: LocalBackendOptions<TWorkflowConfig, TGraderConfig>,
  channel: ParentChannel,
): { runs?: ChildExecutions; rollouts?: WorkerRollouts } {
  const backend = new LocalBackend(options)
  const { maxQueueDepth, grader } = options
  if (backend.gradesGroups) throw oneProcessOnly(grader?.name ?? 'The grader')
  const { artifactRoot, egress } = backend
  const graded = grader !== undefined
  return {
    runs: new ChildExecutions(backend, channel),
    rollouts: { artifactRoot, egress, ...concurrencyLimits(options), maxQueueDepth, graded },
  }
}

interface WorkerParts {
  readonly channel: ParentChannel
  readonly runs: ChildExecutions | undefined
  readonly entrypoint: Pick<WorkerEntrypoint, 'answer' | 'close'>
}

function handle(message: LaterMessage, { channel, runs, entrypoint }: WorkerParts): void {
  const { answer = refuse, close = async () => {} } = entrypoint
  if (message.type === 'leave') return void close().finally(() => process.exit())
  if (message.type !== 'question') return runs?.handle(message)
  const { question, value } = message
  answer(value).then(
    (answered) => channel.post({ type: 'answer', question, value: answered }),
    (error: unknown) => channel.post({ type: 'no-answer', question, error: sendError(error) }),
  )
}

/** The attempts of a group would be in several workers, which would wait for one another. */
function oneProcessOnly(grader: string): OsmosisError {
  return new OsmosisError(
    'invalid_config',
    `${grader} is a GroupGrader, which sees all attempts at a row together, so one process has to run them all: leave out the workers (--workers).`,
  )
}

async function refuse(): Promise<never> {
  throw new Error('This worker does not answer questions.')
}

function exitAfterError(thrown: unknown, channel: ParentChannel): void {
  const message = beginningOf(errorMessage(thrown), errorTextBytes)
  reportExit({ kind: 'uncaught', message, place: codePlace(thrown) })
  // The state of the process is unknown, so it exits once pending results are sent.
  setTimeout(exitAfterFailure, lastResultsMs)
  channel.flushed().finally(exitAfterFailure).catch(exitAfterFailure)
}

function exitAfterFailure(): void {
  process.exit(1)
}

/** A terminal sends its signals to the whole group; the parent decides when the worker exits. */
function leaveSignalsToParent(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
}

function startGuard(maxMemoryBytes: number): void {
  const file = moduleIn(import.meta.dirname, 'guard-thread')
  const maxHeapBytes = getHeapStatistics().heap_size_limit
  const workerData: GuardData = { parent: process.ppid, maxMemoryBytes, maxHeapBytes }
  new Worker(file, { workerData, execArgv: [], env: {} }).unref()
}

/** The file of a module in a folder, which is TypeScript in sources and JavaScript in built packages. */
export function moduleIn(folder: string, name: string): string {
  const source = path.join(folder, `${name}.ts`)
  return existsSync(source) ? source : path.join(folder, `${name}.js`)
}

/** An execution in this process. */
interface Run {
  readonly ending: AbortController
  /** Resolved when the grader may start. */
  readonly mayGrade: PromiseWithResolvers<void>
  /** Settled with the parent's answer to the mark, if it gives one. */
  readonly mayCallPolicy: PromiseWithResolvers<void>
  readonly calls: CallAnnouncements
}

/** Executes the rollouts that the parent sends, and reports their outcomes to it. */
class ChildExecutions {
  readonly #backend: Pick<LocalBackend<never, never>, 'execute'>
  readonly #channel: ParentChannel
  readonly #runs = new Map<number, Run>()

  constructor(backend: Pick<LocalBackend<never, never>, 'execute'>, channel: ParentChannel) {
    this.#backend = backend
    this.#channel = channel
  }

  handle(message: Exclude<LaterMessage, { type: 'question' | 'leave' }>): void {
    if (message.type === 'run') {
      this.#start(message)
      return
    }
    const run = this.#runs.get(message.run)
    if (message.type === 'marked') {
      if (message.error === null) run?.mayCallPolicy.resolve()
      else run?.mayCallPolicy.reject(receiveError(message.error))
      return
    }
    if (message.type === 'call-answered') {
      run?.calls.answered(message.call, message.error)
      return
    }
    if (message.type === 'end') run?.ending.abort(receiveError(message.reason))
    // After an end, grading starts as well and fails immediately with its reason.
    run?.mayGrade.resolve()
  }

  #start(order: Extract<LaterMessage, { type: 'run' }>): void {
    const { run, request, answersMark, announcesCalls } = order
    const ending = new AbortController()
    const mayGrade = Promise.withResolvers<void>()
    const mayCallPolicy = Promise.withResolvers<void>()
    const calls = new CallAnnouncements(run, this.#channel)
    this.#runs.set(run, { ending, mayGrade, mayCallPolicy, calls })
    const gates: ModelCallGates = {
      beforeFirstModelCall: async () => {
        const marked = this.#channel.written({ type: 'policy-called', run })
        // In parallel: the answer may arrive before this process knows that the mark is written.
        await Promise.all(answersMark ? [marked, mayCallPolicy.promise] : [marked])
      },
      ...(announcesCalls && { modelCallBegins: async (call) => calls.begin(call) }),
    }
    const events = this.#backend.execute(request, gates, ending.signal)
    this.#report(run, events, async () => (request.grade ? mayGrade.promise : undefined))
      .finally(() => this.#runs.delete(run))
      .catch((error: unknown) => this.#endUndelivered(run, error))
  }

  /** @param mayGoOn - resolves when the grader may start */
  async #report(
    run: number,
    events: AsyncIterable<RolloutEvent>,
    mayGoOn: () => Promise<void>,
  ): Promise<void> {
    for await (const event of events) {
      sendEvent(event, (sent) => this.#channel.post({ type: 'event', run, event: sent }))
      if (event.type !== 'workflow') continue
      const { failure, partialSamples } = event.outcome
      if (failure === null) await mayGoOn()
      partialSamples
        ?.then((partial) =>
          sendSamples(partial, (samples) => this.#channel.post({ type: 'partial', run, samples })),
        )
        .catch(() => this.#channel.post({ type: 'partial', run, samples: [] }))
    }
  }

  /** Reports a failure when the outcome cannot be sent in any form. */
  #endUndelivered(run: number, error: unknown): void {
    const message = `the worker could not report how the rollout ended: ${errorMessage(error)}`
    const failure = sendFailure({ message, category: 'agent_error', cause: message })
    const outcome = { failure, warnings: [] }
    // The parent ignores the report of a phase that was already reported.
    for (const event of [
      { type: 'workflow', outcome, samples: [] },
      { type: 'graded', failure, samples: [] },
    ] as const) {
      this.#channel.post({ type: 'event', run, event })
    }
  }
}

/** Announces the model calls of an execution to the parent; each waits for its answer. */
class CallAnnouncements {
  readonly #run: number
  readonly #channel: ParentChannel
  readonly #unanswered = new Map<number, PromiseWithResolvers<void>>()
  #calls = 0

  constructor(run: number, channel: ParentChannel) {
    this.#run = run
    this.#channel = channel
  }

  /** Implements `ModelCallGates.modelCallBegins`. */
  async begin({ endpoint, signal }: StartingModelCall): Promise<() => void> {
    const identity = { run: this.#run, call: (this.#calls += 1) }
    const answered = Promise.withResolvers<void>()
    this.#unanswered.set(identity.call, answered)
    this.#channel.post({ type: 'call', ...identity, endpoint })
    const end = (): void => this.#channel.post({ type: 'call-ended', ...identity })
    try {
      await untilAborted(signal, () => answered.promise)
      return end
    } catch (error) {
      end()
      throw error
    } finally {
      this.#unanswered.delete(identity.call)
    }
  }

  answered(call: number, error: SentError | null): void {
    const unanswered = this.#unanswered.get(call)
    if (error === null) unanswered?.resolve()
    else unanswered?.reject(receiveError(error))
  }
}
