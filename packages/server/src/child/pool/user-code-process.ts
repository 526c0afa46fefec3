import type { Readable } from 'node:stream'

import type { WorkerEndReason } from './child-process.ts'
import { WorkerProcess } from './worker-process.ts'

/** How a child process that runs user code, and no rollouts of this process, is started. */
export interface UserCodeOptions {
  /** The file that calls `runWorker`. */
  readonly module: string
  readonly args: readonly string[]
  /** What messages call the process. */
  readonly name: string
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
  /** Whether what it prints is discarded. Default: `output` has it. */
  readonly isSilent?: boolean
  /** It is killed when its event loop is blocked for longer. Seconds; default: no limit. */
  readonly stallTimeoutSeconds?: number | undefined
}

/** A child process that runs user code. */
export interface UserCodeProcess {
  /**
   * Resolves with what the module says about what it has loaded.
   *
   * @throws the error of the module; OsmosisError with code `invalid_entrypoint` when the process ends
   */
  readonly ready: Promise<{ readonly facts: unknown }>
  /** What it prints. */
  readonly output: readonly Readable[]
  /** Resolves after it has ended, with what happened, such as `exited with code 1`. */
  readonly ended: Promise<{ readonly how: string; readonly reason: WorkerEndReason }>
  /** @throws the error of its answer; OsmosisError with code `worker_lost` when it ends */
  ask(question: unknown): Promise<unknown>
  /** Ends it and what its user code started; it is killed when it has not exited after this time. */
  close(closeMs: number): Promise<void>
  /** Kills it and what its user code started. */
  kill(): void
}

/**
 * Starts a child process that calls `runWorker`. It is the leader of a process group, so that Ctrl-C does not reach it,
 * and it ends with this process, however that ends.
 */
export function startUserCode(options: UserCodeOptions): UserCodeProcess {
  const { isSilent = false, stallTimeoutSeconds = Infinity, ...given } = options
  const started = {
    ...given,
    execArgv: process.execArgv,
    output: isSilent ? ('ignore' as const) : ('pipe' as const),
    hasOwnGroup: true,
    stallTimeoutSeconds,
    progressTimeoutSeconds: undefined,
    heapMegabytes: Infinity,
  }
  return new WorkerProcess(started, () => {})
}
