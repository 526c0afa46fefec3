import { InvalidArgumentError, type Command } from '@commander-js/extra-typings'
import { OsmosisError } from '@osmosis/core'
import type { RewardRule } from '@osmosis/server/execution'

import {
  addEgressFlags,
  addLogFlags,
  addQueueFlags,
  addWorkerFlags,
  assertWorkerFlags,
  countFrom,
  example,
  fieldValue,
  groups,
  portNumber,
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
      'a TypeScript or JavaScript module that exports one AgentWorkflow, or one agent loop',
    )
    .optionsGroup(groups.inputs)
    .option('-m, --module <module>', 'the entrypoint, <file>[:<export>], e.g. server.ts:agentLoop')
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
    .option('--no-validate', 'do not check the agent loop before serving it')
    .optionsGroup(groups.output)
    .option('--log <folder>', 'write a trace of every rollout of the agent loop to this folder')
  const logged = addLogFlags(server)
    .optionsGroup(groups.output)
    .option(
      '--outbox <folder>',
      'store accepted rollouts there until their results are delivered, so that the next start resumes them',
    )
    .optionsGroup(groups.server)
    .option(
      '--admission-status <status>',
      'answer an accepted rollout of a workflow with 200, for older trainers, or 202 (default: 202)',
      admissionStatus,
    )
    .optionsGroup(groups.output)
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
      '--public-host <host>',
      'name or address under which the platform reaches the server (default: --host)',
    )
    .option(
      '--public-port <port>',
      'port under which the platform reaches the server (default: the port it listens on)',
      portNumber,
    )
  const workers = addWorkerFlags(reachable, 'server')
  return addQueueFlags(
    workers,
    'queue the rollouts of a workflow in this Redis, for osmosis worker to run',
  )
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

function countOrNone(value: string): number | 'none' {
  // Not null: Commander would take that for a missing value.
  return value === 'none' ? value : countFrom(1)(value)
}

function admissionStatus(value: string): 200 | 202 {
  if (value === '200') return 200
  if (value === '202') return 202
  throw new InvalidArgumentError('It must be 200 or 202.')
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
      '--admission-status': flags.admissionStatus,
      '--run': flags.run || undefined,
    },
    (flag) => `${flag} is for workflows, and ${loaded.file} exports an agent loop.`,
  )
  const { serveAgentLoop } = await import('./serve-agent-loop.ts')
  return serveAgentLoop(loaded, flags)
}

/** @throws OsmosisError with code `invalid_config` for flags that do not fit together */
function assertRegistrationFlags(flags: ServeFlags): void {
  const { register, publicHost, publicPort } = flags
  if (!register) {
    if (publicHost === undefined && publicPort === undefined) return
    throw invalid(
      '--public-host and --public-port only apply to a registration: pass --register as well.',
    )
  }
  if (!flags.auth) {
    throw invalid(
      '--register and --no-auth exclude each other: the platform presents the key of the server in its health checks.',
    )
  }
  if (publicPort !== undefined && (publicPort < 1 || publicPort > 65_535)) {
    throw invalid(`--public-port must be a port number from 1 to 65535, got ${publicPort}.`)
  }
}

/** @throws OsmosisError with code `invalid_config` for flags of `serve` that do not fit together */
function assertQueueFlags(flags: ServeFlags): void {
  if (flags.redis === undefined) {
    const unfit = {
      '--redis-prefix': flags.redisPrefix,
      '--queue-key-file': flags.queueKeyFile,
      '--allow-plain-keys': flags.allowPlainKeys,
      '--code-version': flags.codeVersion,
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
    '--progress-timeout': flags.progressTimeout,
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

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
