import type { Command } from '@commander-js/extra-typings'

import {
  addEgressFlags,
  addLogFlags,
  addQueueFlags,
  addWorkerFlags,
  countFrom,
  example,
  groups,
  portNumber,
  positiveSeconds,
  type FlagsOf,
} from '../command/flags.ts'

function declareWorker(program: Command) {
  const worker = program
    .command('worker')
    .description(
      'run the rollouts of a workflow that servers with --redis have accepted, or that a trainer hands out',
    )
    .argument(
      '<entrypoint>',
      'the module of the workflow; for a queue that which the servers serve, in the same version',
    )
  const queued = addQueueFlags(worker, 'take rollouts over this Redis')
    .optionsGroup(groups.limits)
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
    .optionsGroup(groups.trainer)
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
  const served = addWorkerFlags(queued, 'worker')
    .optionsGroup(groups.server)
    .option('--port <port>', 'port for /health and /metrics (default: none)', portNumber)
    .option('--host <address>', 'address of that port', '127.0.0.1')
  return addLogFlags(addEgressFlags(served, 'model calls')).addHelpText(
    'after',
    example('osmosis worker rollouts/price-check/main.ts --redis redis://127.0.0.1:6379'),
  )
}

/** Flags of `osmosis worker`. */
export type WorkerFlags = FlagsOf<typeof declareWorker>

/** Adds `worker`. */
export function addWorkerCommand(program: Command): void {
  declareWorker(program).action(async (entrypoint, flags) => {
    const { workerCommand } = await import('./start-worker.ts')
    await workerCommand(entrypoint, flags)
  })
}
