import { existsSync } from 'node:fs'
import path from 'node:path'
import { getHeapStatistics } from 'node:v8'
import { Worker } from 'node:worker_threads'

import { errorMessage, OsmosisError } from '@osmosis/core'
import {
  LocalBackend,
  type LocalBackendOptions,
  concurrencyLimits,
} from '../execution/local-backend.ts'
import { codePlace } from '../containment/error-place.ts'
import {
  containUserCode,
  ignoreBrokenPipe,
  keepListeners,
} from '../containment/contain-user-code.ts'
import { beginningOf, errorTextBytes } from '@osmosis/core/http'

import { sendError } from './portable-values.ts'
import { ParentChannel, type LaterMessage } from './parent-channel.ts'
import type { GuardData } from './guard-thread.ts'
import { reportExit, reportEveryExit } from './exit-report.ts'
import { ChildExecutions } from './child-executions.ts'

/** What a worker process executes. */
export interface WorkerEntrypoint<TWorkflowConfig = unknown, TGraderConfig = unknown> {
  readonly backend: LocalBackendOptions<TWorkflowConfig, TGraderConfig>
  /** Plain data about the entrypoint, which the parent receives when it is loaded. Default: null. */
  readonly facts?: unknown
  /** Answers a question of `WorkerPoolBackend.ask`. Default: questions are refused. */
  readonly answer?: (question: unknown) => Promise<unknown>
}

/** How long a process that must exit waits until its last results are sent. */
const lastResultsMs = 1000

/**
 * Makes this process a worker of the one that started it: loads user code, executes the rollouts that the
 * parent sends, and exits with the parent. Called once, by the module that `createWorkerPool` starts.
 *
 * @param load - loads the entrypoint; when it rejects, the parent gets the error
 */
export async function runWorker<TWorkflowConfig, TGraderConfig>(
  load: () => Promise<WorkerEntrypoint<TWorkflowConfig, TGraderConfig>>,
): Promise<void> {
  const channel = new ParentChannel()
  reportEveryExit()
  containUserCode({ onUnattributed: (error) => exitAfterError(error, channel) })
  leaveSignalsToParent()
  ignoreBrokenPipe()
  // A worker needs its listeners even if user code removes them.
  keepListeners(() => true)
  const { beatMs, maxMemoryBytes } = await channel.watched
  startGuard(maxMemoryBytes)
  setInterval(() => channel.beat(), beatMs).unref()
  channel.letGo()
  try {
    const { backend: options, facts = null, answer = refuse } = await load()
    const backend = new LocalBackend(options)
    if (backend.gradesGroups) throw oneProcessOnly(options.grader?.name ?? 'The grader')
    const runs = new ChildExecutions(backend, channel)
    channel.hold()
    channel.onMessage((message) => handle(message, { channel, runs, answer }))
    const { workflows, graders } = concurrencyLimits(options)
    const { maxQueueDepth, grader } = options
    const limits = { workflows, graders, maxQueueDepth, graded: grader !== undefined }
    const { artifactRoot, egress } = backend
    channel.post({ type: 'ready', limits, artifactRoot, egress, facts })
  } catch (error) {
    await channel.written({ type: 'refused', error: sendError(error) })
    process.exit(1)
  }
}

interface WorkerParts {
  readonly channel: ParentChannel
  readonly runs: ChildExecutions
  readonly answer: (question: unknown) => Promise<unknown>
}

function handle(message: LaterMessage, { channel, runs, answer }: WorkerParts): void {
  if (message.type === 'leave') process.exit()
  if (message.type !== 'question') return runs.handle(message)
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
  const source = path.join(import.meta.dirname, 'guard-thread.ts')
  const file = existsSync(source) ? source : source.replace(/ts$/, 'js')
  const maxHeapBytes = getHeapStatistics().heap_size_limit
  const workerData: GuardData = { parent: process.ppid, maxMemoryBytes, maxHeapBytes }
  new Worker(file, { workerData, execArgv: [], env: {} }).unref()
}
