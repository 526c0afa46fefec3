import type { EgressOptions } from '@osmosis/core'

import type { ProcessFlags } from '../command/flags.ts'
import { invalid } from '../command/wrong-use.ts'

/** How a command runs an entrypoint, by the flags that `serve` and `worker` share. */
export interface RunnerPlan {
  /** The module of the entrypoint, and perhaps its export. */
  readonly entrypoint: string
  /** Where rollouts may connect to. */
  readonly egress: EgressOptions
  /** Fields of the workflow's config that have other values. */
  readonly set: Readonly<Record<string, unknown>>
  /** Maximum number of concurrent rollouts. Default: the limit in the config of the workflow. */
  readonly maxConcurrent?: number | undefined
  /** Maximum of a workflow without a config. Default: that of the backend. */
  readonly defaultConcurrency?: number | undefined
  /** Processes that run the workflow; undefined: that of the command. */
  readonly processes: WorkerProcesses | undefined
  /** Folder that all rollouts are recorded in. */
  readonly record: string | undefined
  /** Time for running rollouts to finish when the command ends. Seconds. */
  readonly drainSeconds: number | undefined
  readonly logLevel: ProcessFlags['logLevel']
}

/** Processes that run a workflow. */
interface WorkerProcesses {
  readonly count: number | 'auto'
  readonly stallTimeoutSeconds: number | undefined
  readonly heapMegabytes: number | undefined
}

type RunnerFlags = ProcessFlags & { readonly set?: RunnerPlan['set'] }

/** @throws OsmosisError with code `invalid_config` for limits of worker processes without `--workers` */
export function planRunner(entrypoint: string, flags: RunnerFlags): RunnerPlan {
  const { allowHost, privateHosts, workers, stallTimeout, workerMemory } = flags
  if (workers === undefined && (stallTimeout ?? workerMemory) !== undefined) {
    throw invalid(
      '--stall-timeout and --worker-memory are limits of workers: pass --workers as well.',
    )
  }
  return {
    entrypoint,
    egress: { allowedHosts: allowHost, privateAddresses: privateHosts ? 'allow' : 'refuse' },
    set: flags.set ?? {},
    processes:
      workers === undefined
        ? undefined
        : { count: workers, stallTimeoutSeconds: stallTimeout, heapMegabytes: workerMemory },
    record: flags.record,
    drainSeconds: flags.drainTimeout,
    logLevel: flags.logLevel,
  }
}
