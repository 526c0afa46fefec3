import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { OsmosisError, type WorkFolderOptions } from '@osmosis/core'
import { currentTraceHeaders, type TraceHeaders } from '@osmosis/core/http'
import type { RolloutTrace } from '@osmosis/core/tracing'
import {
  stateAfter,
  type EventRefusal,
  type LifecycleEvent,
  type LifecycleState,
  type ModelCallGates,
  type RolloutRequest,
} from '@osmosis/protocol'
import { rolloutFolderName } from '@osmosis/protocol/trajectory'

import type { Deadline } from './deadline.ts'
import { nothingReturned, type RunOutput } from './run-output.ts'
import { WorkFolder } from './work-folder.ts'

/**
 * The folder for files of a rollout, `<root>/<rolloutId>/artifacts`, named as the folder of its trajectories is. It is created on
 * first access, because most rollouts store no files. Null when it cannot be created: that must not fail a rollout.
 */
export class ArtifactsFolder {
  readonly #root: string
  readonly #rolloutId: string
  #created: string | null | undefined

  constructor(root: string, rolloutId: string) {
    this.#root = root
    this.#rolloutId = rolloutId
  }

  get path(): string | null {
    if (this.#created !== undefined) return this.#created
    try {
      const folder = path.join(this.#root, rolloutFolderName(this.#rolloutId), 'artifacts')
      mkdirSync(folder, { recursive: true })
      this.#created = folder
    } catch {
      this.#created = null
    }
    return this.#created
  }
}

/** How long user code may take to end after the end of its rollout, before its folder is deleted. */
const longestEndMs = 5_000

function noop(): void {}

interface LiveRolloutOptions {
  /** Default: its model calls are not announced. */
  readonly gates?: ModelCallGates | undefined
  /** Default: the rollout is not traced here. */
  readonly trace?: RolloutTrace | undefined
  /** Ends the rollout early when aborted, with its reason: an OsmosisError. */
  readonly signal?: AbortSignal | undefined
}

/** A rollout that has not ended yet. */
export class LiveRollout {
  readonly request: RolloutRequest
  readonly artifacts: ArtifactsFolder
  readonly trace: RolloutTrace | undefined
  readonly gates: ModelCallGates
  /** The metadata of the row as user code sees it: parsed, once the workflow has started. */
  metadata: unknown
  #ending: AbortController | undefined
  #endedWith: OsmosisError | undefined
  #status: LifecycleState = 'queued'
  #phase: Deadline | undefined
  #unfollow: (() => void) | undefined
  #workFolder: Promise<WorkFolder> | undefined
  readonly #started = Promise.withResolvers<boolean>()
  readonly #startIsRead = Promise.withResolvers<void>()
  #isOver = false
  /** What `run()` of the workflow returned: user code that may run on after a deadline. */
  userCode: Promise<unknown> | undefined
  /** What `run()` returned, for graders. */
  output: RunOutput = nothingReturned
  /** The path of the work folder; null when there is none. */
  workFolder: string | null = null

  constructor(
    request: RolloutRequest,
    artifacts: ArtifactsFolder,
    { gates = {}, trace, signal }: LiveRolloutOptions = {},
  ) {
    this.request = request
    this.artifacts = artifacts
    this.trace = trace
    this.metadata = request.metadata
    this.gates = gates
    if (signal !== undefined) this.#follow(signal)
  }

  get status(): LifecycleState {
    return this.#status
  }

  /** Applies an event of the lifecycle table. Returns the new state, or why the event is refused. */
  apply(event: LifecycleEvent): LifecycleState | EventRefusal {
    const isCancelled = this.#endedWith !== undefined
    const next = stateAfter({ status: this.#status, isCancelled }, event)
    if (next === 'stale' || next === 'after_cancel') return next
    this.#status = next
    if (next === 'running') this.#started.resolve(true)
    return next
  }

  /** Resolves with true when its user code starts, or with false when `ended` settles before that. */
  async startsBefore(ended: Promise<unknown>): Promise<boolean> {
    return Promise.race([this.#started.promise, ended.then(() => false)])
  }

  /** Resolves when whoever reads the events knows of the start and asks for what follows. */
  get startIsRead(): Promise<void> {
    return this.#startIsRead.promise
  }

  /** What follows the start is asked for. */
  goOn(): void {
    this.#startIsRead.resolve()
  }

  /** Runs a phase inside the trace of the rollout, if it has one. */
  async traced<T>(phase: () => Promise<T>): Promise<T> {
    return this.trace === undefined ? phase() : this.trace.run(phase)
  }

  /** The headers that continue its trace, if it has one. */
  get traceHeaders(): TraceHeaders | undefined {
    return this.trace?.run(currentTraceHeaders)
  }

  /** Aborted when the rollout is cancelled or the process shuts down, between phases as well. */
  get ending(): AbortSignal {
    const ending = (this.#ending ??= new AbortController())
    if (this.#endedWith !== undefined) ending.abort(this.#endedWith)
    return ending.signal
  }

  /** Why the rollout was ended early; undefined when it was not. Cheaper to read than the signal. */
  get endedWith(): OsmosisError | undefined {
    return this.#endedWith
  }

  /** Ends the rollout early: the phase that is in progress fails with `reason`, later ones do not start. */
  end(reason: OsmosisError): void {
    this.#endedWith ??= reason
    this.#ending?.abort(reason)
    this.#phase?.abort(reason)
  }

  /** Makes `phase` the one that {@link LiveRollout.end} stops. */
  enter(phase: Deadline): void {
    this.#phase = phase
    if (this.#endedWith !== undefined) phase.abort(this.#endedWith)
  }

  /**
   * The folder that the rollout works in, created by the first call.
   *
   * @throws OsmosisError with code `storage_error`, or `rollout_ended` when nothing would delete it any more
   */
  async openWorkFolder(options?: WorkFolderOptions): Promise<string> {
    if (this.#isOver) throw new OsmosisError('rollout_ended', 'The rollout has ended.')
    this.#workFolder ??= WorkFolder.create(this.request.rolloutId, options)
    const folder = await this.#workFolder
    this.workFolder = folder.path
    return folder.path
  }

  /** Whether there is a work folder, or one is being created. */
  get hasWorkFolder(): boolean {
    return this.#workFolder !== undefined
  }

  /** Stores what the workflow left in its work folder. */
  async storeWork(): Promise<void> {
    const folder = await this.#openedFolder()
    await folder?.store(() => this.artifacts.path)
  }

  /** Called once the rollout has ended and nothing changes any more. */
  close(): void {
    this.#isOver = true
    this.trace?.end()
    this.#unfollow?.()
  }

  /** Deletes the work folder, to be awaited after {@link LiveRollout.close}. */
  async removeWork(hasFailed: boolean): Promise<void> {
    const folder = await this.#openedFolder()
    // Programs of an aborted workflow may still write, until it notices.
    const ended = this.userCode?.then(noop, noop)
    if (ended !== undefined) await Promise.race([ended, sleep(longestEndMs, null, { ref: false })])
    await folder?.close(hasFailed)
  }

  async #openedFolder(): Promise<WorkFolder | undefined> {
    return this.#workFolder?.catch(() => undefined)
  }

  #follow(signal: AbortSignal): void {
    const end = (): void => this.end(signal.reason as OsmosisError)
    signal.addEventListener('abort', end)
    this.#unfollow = () => signal.removeEventListener('abort', end)
    if (signal.aborted) end()
  }
}
