import type { EgressOptions } from '@osmosis/core'
import type { LogFormat, LogLevel } from '@osmosis/server'
import { InvalidArgumentError, Option, type Command } from 'commander'

import { countFrom, decimalNumber, portNumber, repeated, workerCount } from '../flag-values.ts'

/** Flags of `osmosis serve`. */
export interface ServeFlags {
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
  /** The only hosts that the server connects to. */
  allowHost?: readonly string[]
  /** False with `--no-private-hosts`. */
  privateHosts: boolean
  /** How the log is written. */
  logFormat: LogFormat
  /** From which importance on. */
  logLevel: LogLevel
  /** Tells the platform where the agent loop is served. */
  register?: boolean
  /** Name or address under which the platform reaches the server. */
  publicHost?: string
  publicPort?: number
  /** Processes that run user code; without, this one does. */
  workers?: number | 'auto'
  /** Seconds that running rollouts may go on when the server is to end. */
  drainTimeout?: number
  /** Seconds that user code may block the event loop of its worker. */
  stallTimeout?: number
  /** Heap of a worker, in MiB. */
  workerMemory?: number
}

/** Adds `serve`. */
export function addServeCommand(program: Command): void {
  program
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
    .addOption(
      new Option(
        '--log-format <format>',
        'log on stderr for people, or as JSON; auto: for people on a terminal',
      )
        .choices(['auto', 'pretty', 'json'])
        .default('auto'),
    )
    .addOption(
      new Option('--log-level <level>', 'log what is at least this important')
        .choices(['debug', 'info', 'warn', 'error'])
        .default('info'),
    )
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
    .option(
      '--allow-host <host>',
      'connect only there for model calls and callbacks: a name, *.<domain>, an address or a subnet, with an optional port; may be repeated (default: every host)',
      repeated,
    )
    .option(
      '--no-private-hosts',
      'connect to no loopback or private address but those that --allow-host names',
    )
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
    .option(
      '--workers <n>',
      'run workflows in this many processes of their own, or one for each core with auto (default: in the process of the server)',
      workerCount(1),
    )
    .option(
      '--drain-timeout <seconds>',
      'let running rollouts go on for so long when the server is told to end (default: 30)',
      seconds,
    )
    .option(
      '--stall-timeout <seconds>',
      'end a worker whose event loop is blocked for longer (default: 30)',
      positiveSeconds,
    )
    .option(
      '--worker-memory <MiB>',
      'heap of a worker (default: a fair share of the memory of the machine)',
      countFrom(32),
    )
    .action(async (entrypoint: string | undefined, flags: ServeFlags) => {
      const { serveCommand } = await import('./serve-command.ts')
      await serveCommand(entrypoint, flags)
    })
}

/** Where the server may connect to. */
export function egressOf({ allowHost, privateHosts }: ServeFlags): EgressOptions {
  return { allowedHosts: allowHost, privateAddresses: privateHosts ? 'allow' : 'refuse' }
}

function seconds(value: string): number {
  const given = decimalNumber(value)
  if (given >= 0) return given
  throw new InvalidArgumentError('It must be a number of seconds, 0 or more.')
}

function positiveSeconds(value: string): number {
  const given = decimalNumber(value)
  if (given > 0) return given
  throw new InvalidArgumentError('It must be a number of seconds above 0.')
}

function admissionStatus(value: string): 200 | 202 {
  if (value === '200') return 200
  if (value === '202') return 202
  throw new InvalidArgumentError('It must be 200 or 202.')
}
