import { invalid } from '../command/exit-codes.ts'
import { InvalidArgumentError, Option, type Command } from '@commander-js/extra-typings'
import type { RewardRule } from '@osmosis/server/execution'

import {
  addEgressFlags,
  addLogFlags,
  addWorkerFlags,
  assertWorkerFlags,
  countFrom,
  example,
  fieldValue,
  groups,
  portNumber,
  redisHelp,
  refuseOneOf,
  type FlagsOf,
} from '../command/flags.ts'
import { disablePretenuring } from '../command/process.ts'
import { completeEnvironment } from '../inputs/environment.ts'

function declareServe(program: Command) {
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
      'bearer key that callers must present; other users of this machine see command lines, but not the default, $OSMOSIS_ROLLOUT_SERVER_API_KEY',
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
      'register the address of the agent loop with the platform ($OSMOSIS_PLATFORM_URL, https://platform.osmosis.ai); needs a key and a login ($OSMOSIS_TOKEN, else ~/.config/osmosis/credentials.json)',
    )
    .option(
      '--public-host <host[:port]>',
      'name or address under which the platform reaches the server (default: --host, and the port it listens on)',
      publicAddress,
    )
  const workers = addWorkerFlags(reachable, 'server')
  return workers
    .optionsGroup(groups.queue)
    .option('--redis <url>', redisHelp('queue the rollouts of a workflow in this Redis'))
    .option(
      '--max-rollouts <n>',
      'maximum number of concurrent rollouts of the queue, on all workers together, or none for no limit (default: the last value that a server of the queue set)',
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

/** Adds `serve`. */
export function addServeCommand(program: Command): void {
  declareServe(program).action(serveCommand)
}

/** The value of `--reward`. */
function rewardRule(value: string): RewardRule {
  if (value === 'single' || value === 'mean' || value === 'sum') return value
  return { sampleId: value }
}

/** Reads `<host>` or `<host>:<port>`; an IPv6 address with a port stands in brackets. */
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

/**
 * Serves the rollouts of an entrypoint, a workflow or an agent loop, until a signal ends the
 * process.
 *
 * @throws OsmosisError with code `invalid_config` unless one is named, for flags that do not fit
 * together or not to what is served, and for a file of variables that is not there;
 * `invalid_entrypoint` for what cannot be served
 */
async function serveCommand(entrypoint: string | undefined, flags: ServeFlags): Promise<void> {
  const spec = entrypoint ?? flags.module
  if (spec === undefined || (entrypoint !== undefined && flags.module !== undefined)) {
    throw invalid(
      'Name one entrypoint: a module that exports an AgentWorkflow or an agent loop, as <file> or -m <file>:<export>.',
    )
  }
  assertRegistrationFlags(flags)
  assertQueueFlags(flags)
  assertRunFlags(flags)
  disablePretenuring()
  completeEnvironment()
  const { awaitKeyFile } = await import('./listen.ts')
  awaitKeyFile(flags.apiKeyFile)
  const { serveQueue, serveWorkflow } = await import('./serve-workflow.ts')
  if (flags.redis !== undefined) return serveQueue(spec, flags.redis, flags)
  if (flags.workers !== undefined) return serveWorkflow(spec, flags)
  assertWorkerFlags(flags)
  const { loadEntrypoint } = await import('../inputs/load-entrypoint.ts')
  const loaded = await loadEntrypoint(spec)
  if (loaded.kind === 'workflow') return serveWorkflow(loaded, flags)
  refuseOneOf(
    {
      '--set': flags.set,
      '--record': flags.record,
      '--run': flags.run || undefined,
    },
    (flag) => `${flag} is for workflows, and ${loaded.file} exports an agent loop.`,
  )
  const { serveAgentLoop } = await import('./serve-agent-loop.ts')
  return serveAgentLoop(loaded, flags)
}

/** @throws OsmosisError with code `invalid_config` for flags that do not fit together */
function assertRegistrationFlags(flags: ServeFlags): void {
  const { register, publicHost } = flags
  if (!register) {
    if (publicHost === undefined) return
    throw invalid('--public-host only applies to a registration: pass --register as well.')
  }
  if (!flags.auth) {
    throw invalid(
      '--register and --no-auth exclude each other: the platform presents the key of the server in its health checks.',
    )
  }
}

/** @throws OsmosisError with code `invalid_config` for flags of `serve` that do not fit together */
function assertQueueFlags(flags: ServeFlags): void {
  if (flags.redis === undefined) {
    const unfit = {
      '--max-rollouts': flags.maxRollouts,
      '--max-queue-depth': flags.maxQueueDepth,
    }
    refuseOneOf(unfit, (flag) => `${flag} only applies to a queue: pass --redis as well.`)
    return
  }
  refuseOneOf(
    { '--outbox': flags.outbox },
    (flag) =>
      `${flag} and --redis exclude each other: the queue already stores accepted rollouts until their results are delivered.`,
  )
  refuseOneOf(
    { '--run': flags.run || undefined },
    (flag) =>
      `${flag} and --redis exclude each other: POST /run returns the result in its response, and a rollout in a queue may outlive the server. Serve without a queue, and add --workers for more processes.`,
  )
  const ofWorkers = {
    '--workers': flags.workers,
    '--stall-timeout': flags.stallTimeout,
    '--worker-memory': flags.workerMemory,
    '--set': flags.set,
    '--record': flags.record,
  }
  refuseOneOf(
    ofWorkers,
    (flag) => `${flag} is a flag of osmosis worker: with --redis the server runs no rollouts.`,
  )
}

/** @throws OsmosisError with code `invalid_config` for flags of `--run` without it */
function assertRunFlags({ run, reward, groupColumn, groupSize }: ServeFlags): void {
  if (!run && [reward, groupColumn, groupSize].some((flag) => flag !== undefined)) {
    throw invalid(
      '--reward, --group-column and --group-size only apply to POST /run: pass --run as well.',
    )
  }
  if (groupSize !== undefined && groupColumn === undefined) {
    throw invalid('--group-size needs --group-column, which names the groups.')
  }
}
