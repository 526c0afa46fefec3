import type { Command } from '@commander-js/extra-typings'

import {
  addEgressFlags,
  addLogFlags,
  addWorkerFlags,
  countFrom,
  example,
  fieldValue,
  groups,
  portNumber,
  positiveSeconds,
  redisHelp,
  type FlagsOf,
} from '../command/flags.ts'

/** Adds `worker`. */
export function declareWorker(program: Command) {
  const worker = program
    .command('worker')
    .description(
      'run the rollouts of a workflow that servers with --redis accepted, or that a trainer assigns',
    )
    .argument(
      '<entrypoint>',
      'the module of the workflow; for a queue, the same version of the module that the servers serve',
    )
  const queued = worker
    .optionsGroup(groups.queue)
    .option('--redis <url>', redisHelp('run the rollouts that are queued in this Redis'))
    .optionsGroup(groups.inputs)
    .option(
      '--set <field=value>',
      'another value for a field of the config of the workflow, e.g. max_iterations=8; may be repeated',
      fieldValue,
    )
    .optionsGroup(groups.limits)
    .option(
      '--concurrency <n>',
      'maximum number of concurrent rollouts in this worker (default: the limit in the config of the workflow, else 64)',
      countFrom(1),
    )
    .option(
      '--lock-duration <seconds>',
      'treat a worker as lost when it is silent for this long; must be longer than any computation that blocks its thread (default: 30)',
      positiveSeconds,
    )
    .option(
      '--max-model-calls <n>',
      'maximum number of concurrent model calls to one policy endpoint, on all workers together (default: no limit)',
      countFrom(1),
    )
    .optionsGroup(groups.trainer)
    .option(
      '--agent-lightning <url>',
      'run rollouts from the Agent Lightning v1 gateway at this URL; its key is $OSMOSIS_TRAINER_KEY',
    )
    .option(
      '--reward <rule>',
      'reward of a rollout with several samples: mean, sum, or the id of the sample whose reward counts (default: such a rollout fails)',
    )
    .option(
      '--group-column <name>',
      'column of the rows of Agent Lightning that names their group; use one worker (default: no groups)',
    )
    .option(
      '--group-size <n>',
      'number of attempts in a group of --group-column, for graders that compare all of them (default: any number)',
      countFrom(1),
    )
    .option(
      '--rows <module>',
      'a module whose function rows turns a row of the trainer into { messages, label, metadata } (default: columns of the usual names)',
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
