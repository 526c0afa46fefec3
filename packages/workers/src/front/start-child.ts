import { ChildProcess, fork } from 'node:child_process'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'

import { exitReportPipe, parseExitReport, type ExitReport } from '../child/last-words.ts'

/** How a worker process is started and watched. */
export interface WorkerProcessOptions {
  readonly module: string
  readonly args: readonly string[]
  readonly execArgv: readonly string[]
  /** Undefined: that of this process. */
  readonly cwd: string | undefined
  /** Undefined: those of this process. */
  readonly env: NodeJS.ProcessEnv | undefined
  readonly stallTimeoutSeconds: number
  /** Undefined: it may take any time to end a rollout. */
  readonly progressTimeoutSeconds: number | undefined
  /** Limit of the heap; twice as much and 256 in all ends the process, too, if there is that much. */
  readonly heapMegabytes: number
}

/**
 * V8 guesses which objects will live long, and takes those of a rollout for such. What it guesses wrong keeps
 * everything that it refers to until a full collection.
 */
const disablePretenuring = '--no-allocation-site-pretenuring'

/** A process that cannot be started is one that ends with an error, whatever that is. */
export function startChild(options: WorkerProcessOptions): ChildProcess {
  const { module, args, execArgv, cwd, heapMegabytes } = options
  // oxlint-disable-next-line node/no-process-env -- what a child has is this, unless told otherwise
  const { OSMOSIS_ROLLOUT_SERVER_API_KEY: _, ...env } = options.env ?? process.env
  try {
    return fork(module, args, {
      execArgv: [...execArgv, `--max-old-space-size=${heapMegabytes}`, disablePretenuring],
      ...(cwd === undefined ? {} : { cwd }),
      env,
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc', 'pipe'],
    })
  } catch (error) {
    const child = new ChildProcess()
    process.nextTick(() => child.emit('error', error))
    return child
  }
}

/** Reads what a process says at its end, and whether it was large then. */
export function exitReportOf(
  child: ChildProcess,
): () => Promise<{ last: ExitReport | undefined; isLarge: boolean }> {
  // Of a process that could not be started there are none.
  const pipes: readonly unknown[] | null | undefined = child.stdio
  const pipe = pipes?.[exitReportPipe]
  const said = pipe instanceof Readable ? text(pipe).catch(() => '') : Promise.resolve('')
  return async () => {
    const lines = (await said).split('\n')
    const all = lines.map(parseExitReport).filter((words) => words !== undefined)
    return {
      last: all.find(({ kind }) => kind !== 'large'),
      isLarge: all.some(({ kind }) => kind === 'large'),
    }
  }
}
