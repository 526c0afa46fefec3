import type { Command } from 'commander'

import { countFrom, portNumber } from '../flag-values.ts'
import {
  addEgressOptions,
  addLogOptions,
  addWorkerOptions,
  positiveSeconds,
  type ProcessFlags,
} from '../serve/process-options.ts'
import { addTrainerOptions, type TrainerFlags } from './trainer-options.ts'
import { addQueueOptions, type QueueFlags } from '../queue/queue-options.ts'

/** Flags of `osmosis worker`. */
export interface WorkerFlags extends ProcessFlags, QueueFlags, TrainerFlags {
  concurrency?: number
  /** Seconds. */
  lockDuration?: number
  /** To one policy endpoint at the same time, over all workers. */
  maxModelCalls?: number
  /** Where the worker answers for its health; without, nowhere. */
  port?: number
  host: string
}

/** Adds `worker`. */
export function addWorkerCommand(program: Command): void {
  const command = program
    .command('worker')
    .description(
      'run the rollouts of a workflow that servers with --redis have accepted, or that a trainer hands out',
    )
    .argument(
      '<entrypoint>',
      'the module of the workflow; for a queue that which the servers serve, in the same version',
    )
  addQueueOptions(command, 'take rollouts over this Redis')
    .option(
      '--concurrency <n>',
      'most rollouts at the same time in this worker (default: what the config of the workflow says; 64 when it sets no limit)',
      countFrom(1),
    )
    .option(
      '--lock-duration <seconds>',
      'take a worker that is silent for so long for dead; to be longer than any computation that blocks its thread (default: 30)',
      positiveSeconds,
    )
    .option(
      '--max-model-calls <n>',
      'most model calls to one policy endpoint at the same time, on all workers together (default: any number)',
      countFrom(1),
    )
  addTrainerOptions(command)
  addWorkerOptions(command, 'worker')
    .option('--port <port>', 'port for /health and /metrics (default: none)', portNumber)
    .option('--host <address>', 'address of that port', '127.0.0.1')
  addEgressOptions(command, 'model calls')
  addLogOptions(command).action(async (entrypoint: string, flags: WorkerFlags) => {
    const { workerCommand } = await import('./worker-command.ts')
    await workerCommand(entrypoint, flags)
  })
}
