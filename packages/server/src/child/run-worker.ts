import { getHeapStatistics } from 'node:v8'
import { Worker } from 'node:worker_threads'

import { errorMessage, OsmosisError } from '@osmosis/core'
import {
  LocalBackend,
  type LocalBackendOptions,
  concurrencyLimits,
} from '../execution/local-backend.ts'
import { codePlace } from '../containment/error-place.ts'
import { exitDespiteThreads } from '../containment/blocked-threads.ts'
import {
  type Containment,
  containUserCode,
  ignoreBrokenPipe,
  keepListeners,
} from '../containment/contain-user-code.ts'
import { beginningOf, errorTextBytes } from '@osmosis/core/http'

import { sendError } from './portable-values.ts'
import { ParentChannel, type LaterMessage } from './parent-channel.ts'
import type { GuardData } from './guard-thread.ts'
import { reportExit, reportEveryExit } from './exit-report.ts'
import { moduleIn } from './module-file.ts'
import type { WorkerRollouts } from './worker-messages.ts'
import { ChildExecutions } from './child-executions.ts'

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
