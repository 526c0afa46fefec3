import type { RewardRule } from '@osmosis/runtime'
import { InvalidArgumentError, type Command } from 'commander'

import {
  countFrom,
  portNumber,
  addQueueOptions,
  type QueueFlags,
  addEgressOptions,
  addLogOptions,
  addWorkerOptions,
  type ProcessFlags,
} from '../command/flags.ts'

/** Flags of `osmosis serve`. */
export interface ServeFlags extends ProcessFlags, QueueFlags {
  port?: number
  host: string
  apiKey?: string
  /** File with a key a line. */
  apiKeyFile?: string
  /** False with `--no-auth`. */
  auth: boolean
  /** The entrypoint, when it is not an argument. */
  module?: string
  /** False with `--no-validate`. */
  validate: boolean
  /** Folder for the traces of an agent loop. */
  log?: string
  /** Folder for results that are not acknowledged. */
  outbox?: string
  /** Status of an accepted rollout of a workflow. */
  admissionStatus?: 200 | 202
  /** False with `--no-trajectories`. */
  trajectories: boolean
  /** Serves rollouts whose answer is their result as well. */
  run?: boolean
  /** The one number of a rollout with several samples. */
  reward?: RewardRule
  /** Column that names the group of a row. */
  groupColumn?: string
  /** Attempts of a group. */
  groupSize?: number
  /** Tells the platform where the agent loop is served. */
  register?: boolean
  /** Name or address under which the platform reaches the server. */
  publicHost?: string
  publicPort?: number
  /** Most rollouts of a queue that run at the same time, on all workers together; `none` for any number. */
  maxRollouts?: number | 'none'
  /** Most rollouts of a queue that wait for a worker. */
  maxQueueDepth?: number
}

/** Adds `serve`. */
export function addServeCommand(program: Command): void {
  const command = program
    .command('serve')
    .description('serve the rollouts of a workflow, or of an agent loop, over HTTP')
    .argument(
      '[entrypoint]',
      'a TypeScript or JavaScript module that exports one AgentWorkflow, or one agent loop',
    )
    .option('-m, --module <module>', 'the entrypoint, <file>[:<export>], e.g. server.ts:agentLoop')
    .option(
      '--port <port>',
      'port to listen on; 0 takes a free one (default: $_OSMOSIS_ROLLOUT_PORT, $ROLLOUT_PORT, 8000; 9000 for an agent loop)',
      portNumber,
    )
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option(
      '--api-key <key>',
      'bearer key that callers must present (default: $OSMOSIS_ROLLOUT_SERVER_API_KEY)',
    )
    .option(
      '--api-key-file <file>',
      'file with the keys of which callers must present one, a line each; read again on SIGHUP',
    )
    .option('--no-auth', 'ask for no key, also on an address that other machines reach')
    .option('--no-validate', 'do not check the agent loop before serving it')
    .option('--log <folder>', 'keep a trace of every rollout of the agent loop there')
  addLogOptions(command)
    .option(
      '--outbox <folder>',
      'keep rollouts there from their acceptance until they are told in full, so that the next start goes on from there',
    )
    .option(
      '--admission-status <status>',
      'answer an accepted rollout of a workflow with 200, for older trainers, or 202 (default: 202)',
      admissionStatus,
    )
    .option(
      '--no-trajectories',
      'write no document of what a rollout said (default: one each, below $_OSMOSIS_ROLLOUT_ARTIFACT_ROOT or ~/.osmosis)',
    )
  addRunOptions(command)
  addEgressOptions(command, 'model calls and callbacks')
    .option(
      '--register',
      'tell the platform ($OSMOSIS_PLATFORM_URL, https://platform.osmosis.ai) where the agent loop is; needs a key and a login ($OSMOSIS_TOKEN, else ~/.config/osmosis/credentials.json)',
    )
    .option(
      '--public-host <host>',
      'name or address under which the platform reaches the server (default: --host)',
    )
    .option(
      '--public-port <port>',
      'port on which it does (default: the one that is listened on)',
      portNumber,
    )
  addWorkerOptions(command, 'server')
  addQueueOptions(command, 'leave the rollouts of a workflow to osmosis worker, over this Redis')
    .option(
      '--max-rollouts <n>',
      'most rollouts of the queue that run at the same time, on all workers together, or none for no limit (default: as a server of the queue said last)',
      countOrNone,
    )
    .option(
      '--max-queue-depth <n>',
      'answer 429 while so many rollouts wait in the queue (default: any number may)',
      countFrom(1),
    )
    .action(async (entrypoint: string | undefined, flags: ServeFlags) => {
      const { serveCommand } = await import('./start-server.ts')
      await serveCommand(entrypoint, flags)
    })
}

function addRunOptions(command: Command): void {
  command
    .option(
      '--run',
      'serve POST /run and POST /flush as well, for trainers that wait for the answer, as Miles does',
    )
    .option(
      '--reward <rule>',
      'reward of a rollout of --run with several samples: mean, sum, or the id of a sample (default: it must have one sample)',
      rewardRule,
    )
    .option(
      '--group-column <name>',
      'column of the rows of --run that names their group (default: they belong to none)',
    )
    .option(
      '--group-size <n>',
      'how many attempts a group of --group-column has, for graders that see them all (default: any number)',
      countFrom(1),
    )
}

/** The value of `--reward`. */
function rewardRule(value: string): RewardRule {
  if (value === 'single' || value === 'mean' || value === 'sum') return value
  return { sampleId: value }
}

function countOrNone(value: string): number | 'none' {
  // Commander takes null for a value that is missing.
  return value === 'none' ? value : countFrom(1)(value)
}

function admissionStatus(value: string): 200 | 202 {
  if (value === '200') return 200
  if (value === '202') return 202
  throw new InvalidArgumentError('It must be 200 or 202.')
}
