import type { Command } from 'commander'

import {
  countFrom,
  portNumber,
  addEgressOptions,
  addLogOptions,
  addWorkerOptions,
  positiveSeconds,
  type ProcessFlags,
  addQueueOptions,
  type QueueFlags,
} from '../command/flags.ts'

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
    const { workerCommand } = await import('./start-worker.ts')
    await workerCommand(entrypoint, flags)
  })
}

/** Flags that say which trainer a worker takes rollouts from. */
export interface TrainerFlags {
  /** The gateway of Agent Lightning, as a URL. */
  agentLightning?: string
  /** How often a rollout is run again after an error of the endpoint. */
  retries?: number
  /** `mean`, `sum`, or the id of a sample. */
  reward?: string
  /** Module that reads the trainer's rows. */
  rows?: string
  /** The explorer of Trinity-RFT, as a URL. */
  trinity?: string
  /** File with the rows that Trinity is trained on. */
  dataset?: string
  /** At each row, in an epoch. */
  attempts?: number
  groupsPerCommit?: number
  epochs?: number
  /** File that keeps how far training with Trinity has come. */
  journal?: string
}

/** Adds the flags that say which trainer a worker takes rollouts from. */
function addTrainerOptions(command: Command): Command {
  return command
    .option(
      '--agent-lightning <url>',
      'take rollouts from the gateway of Agent Lightning v1 there; its key is $OSMOSIS_TRAINER_KEY',
    )
    .option(
      '--retries <n>',
      'how often a rollout of a trainer is run again after an error of its endpoint (default: 1)',
      countFrom(0),
    )
    .option(
      '--reward <rule>',
      'the one reward of a rollout with several samples: mean, sum, or the id of the sample whose reward it is (default: such a rollout fails)',
    )
    .option(
      '--rows <module>',
      'a module whose function rows turns a row of the trainer into { messages, label, metadata } (default: columns of the usual names)',
    )
    .option(
      '--trinity <url>',
      'train over a dataset with the explorer of Trinity-RFT that serves there; one worker for an explorer',
    )
    .option(
      '--dataset <file>',
      'the rows to train on with Trinity: a .jsonl, .csv or .parquet file, as evaluations read it',
    )
    .option(
      '--attempts <n>',
      'how many times each row is run with Trinity; the attempts at a row are a group',
      countFrom(1),
    )
    .option(
      '--groups-per-commit <n>',
      'how many groups Trinity is handed at a time, when all of them have ended',
      countFrom(1),
    )
    .option(
      '--epochs <n>',
      'how many times to go through the dataset with Trinity (default: 1)',
      countFrom(1),
    )
    .option(
      '--journal <file>',
      'keep there how far training with Trinity has come, so that the next start goes on from there (default: it begins with the first row)',
    )
}
