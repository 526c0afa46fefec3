import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'
import type { RewardRule } from '@osmosis/server/execution'

import {
  addEgressFlags,
  addLogFlags,
  addWorkerFlags,
  countFrom,
  example,
  fieldValue,
  groups,
  portNumber,
  redisHelp,
  type FlagsOf,
} from '../command/flags.ts'

/** Adds `serve`. */
export function declareServe(program: Command) {
  const server = program
    .command('serve')
    .description('serve the rollouts of a workflow, or of an agent loop, over HTTP')
    .argument(
      '[entrypoint]',
      'a TypeScript or JavaScript module that exports one AgentWorkflow, or one agent loop; <file>:<export> names one of several',
    )
    .addOption(new Option('-m, --module <module>', 'as in the Python command').hideHelp())
    .optionsGroup(groups.server)
    .option(
      '--port <port>',
      'port to listen on; 0 takes a free one (default: $_OSMOSIS_ROLLOUT_PORT, $ROLLOUT_PORT, 8000; 9000 for an agent loop)',
      portNumber,
    )
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .optionsGroup(groups.access)
    .option(
      '--api-key <key>',
      'bearer key that callers must present (default: $OSMOSIS_ROLLOUT_SERVER_API_KEY, which is safer, because other users of this machine see command lines)',
    )
    .option(
      '--api-key-file <file>',
      'file with the accepted bearer keys, one per line; read again on SIGHUP',
    )
    .option('--no-auth', 'require no key, even on an address that other machines can reach')
    .optionsGroup(groups.inputs)
    .option(
      '--set <field=value>',
      'another value for a field of the config of the workflow, e.g. max_iterations=8; may be repeated',
      fieldValue,
    )
    .optionsGroup(groups.output)
    .option('--log <folder>', 'write a trace of every rollout of the agent loop to this folder')
  const logged = addLogFlags(server)
    .optionsGroup(groups.output)
    .option(
      '--outbox <folder>',
      'store accepted rollouts there until their results are delivered, so that the next start resumes them',
    )
    .option(
      '--no-trajectories',
      'do not write trajectory documents (default: one for each rollout, below $_OSMOSIS_ROLLOUT_ARTIFACT_ROOT or ~/.osmosis)',
    )
    .optionsGroup(groups.server)
    .option(
      '--run',
      'also serve POST /run and POST /flush, for trainers that wait for the response, such as Miles',
    )
    .option(
      '--reward <rule>',
      'reward of a rollout of --run with several samples: mean, sum, or the id of a sample (default: it must have one sample)',
      rewardRule,
    )
    .option(
      '--group-column <name>',
      'column of the rows of --run that names their group (default: no groups)',
    )
    .option(
      '--group-size <n>',
      'number of attempts in a group of --group-column, for graders that compare all of them (default: any number)',
      countFrom(1),
    )
  const reachable = addEgressFlags(logged, 'model calls and callbacks')
    .optionsGroup(groups.platform)
    .option(
      '--register',
      'register the address of the agent loop with the platform; needs a key and a login',
    )
    .option(
      '--public-host <host[:port]>',
      'where the platform reaches the server (default: --host, and the port it listens on)',
      publicAddress,
    )
  const workers = addWorkerFlags(reachable, 'server')
  return workers
    .optionsGroup(groups.queue)
    .option('--redis <url>', redisHelp('queue the rollouts of a workflow in this Redis'))
    .option(
      '--max-rollouts <n>',
      'maximum concurrent rollouts on all workers of the queue, or none (default: the last value that a server set)',
      countOrNone,
    )
    .option(
      '--max-queue-depth <n>',
      'answer 429 while this many rollouts wait in the queue (default: no limit)',
      countFrom(1),
    )
    .optionsGroup(groups.limits)
    .option(
      '--concurrency <rollouts>',
      'maximum number of concurrent rollouts of a workflow whose config sets no limit (default: 4)',
      countFrom(1),
    )
    .addHelpText('after', example('osmosis serve rollouts/price-check/main.ts --port 8000'))
}

/** Flags of `osmosis serve`. */
export type ServeFlags = FlagsOf<typeof declareServe>

/** The value of `--reward`. */
function rewardRule(value: string): RewardRule {
  if (value === 'single' || value === 'mean' || value === 'sum') return value
  return { sampleId: value }
}

/** Reads `<host>` or `<host>:<port>`; an IPv6 address with a port is in brackets. */
function publicAddress(value: string): { readonly host: string; readonly port?: number } {
  const [, host, port] = /^(\[.+\]|[^:]+):(\d+)$/.exec(value) ?? []
  if (host === undefined) return { host: value }
  if (Number(port) < 1 || Number(port) > 65_535) {
    throw new InvalidArgumentError('Its port must be a number from 1 to 65535.')
  }
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) }
}

function countOrNone(value: string): number | 'none' {
  // Not null: Commander would take that for a missing value.
  return value === 'none' ? value : countFrom(1)(value)
}
