import type { EventEmitter } from 'node:events'

import type { EgressOptions } from '@osmosis/core'
import type { LogFormat, LogLevel } from '@osmosis/server'
import { InvalidArgumentError, Option, type Command } from 'commander'

/** Reads the value of a flag that counts something of which there have to be `least`, and `most` at most. */
export function countFrom(least: number, most = Infinity): (value: string) => number {
  return (value) => {
    const isCount = /^\d+$/.test(value) && Number(value) >= least && Number(value) <= most
    if (isCount) return Number(value)
    const range = most === Infinity ? `${least} or more` : `from ${least} to ${most}`
    throw new InvalidArgumentError(`It must be a whole number, ${range}.`)
  }
}

/** The value of a flag that says how many worker processes there are. */
export function workerCount(value: string): number | 'auto' {
  if (value === 'auto') return value
  if (/^\d+$/.test(value) && Number(value) >= 1) return Number(value)
  throw new InvalidArgumentError('It must be a whole number of at least 1, or auto.')
}

/** The value of a flag that measures something. */
export function decimalNumber(value: string): number {
  const number = Number(value)
  if (value.trim() !== '' && Number.isFinite(number)) return number
  throw new InvalidArgumentError('It must be a number.')
}

/** The value of a flag that is a part of a whole. */
export function share(value: string): number {
  const number = decimalNumber(value)
  if (number >= 0 && number <= 1) return number
  throw new InvalidArgumentError('It must be a number from 0 to 1.')
}

/** The value of a flag that says how many, or which share of all. */
export function countOrShare(value: string): number {
  const number = decimalNumber(value)
  if (number > 0 && (number < 1 || Number.isSafeInteger(number))) return number
  throw new InvalidArgumentError('It must be a whole number of at least 1, or a share below 1.')
}

/** The value of a flag that says how much may be spent. */
export function dollars(value: string): number {
  const number = decimalNumber(value)
  if (number > 0) return number
  throw new InvalidArgumentError('It must be a number of US dollars above 0.')
}

/** The value of a flag that names a port; 0 stands for any. */
export function portNumber(value: string): number {
  const port = /^\d+$/.test(value) ? Number(value) : Number.NaN
  if (port <= 65_535) return port
  throw new InvalidArgumentError('It must be a port number from 0 to 65535.')
}

/** The value of a flag that names the base URL of an endpoint. */
export function endpointUrl(value: string): string {
  if (/^https?:\/\/./i.test(value) && URL.canParse(value)) return value
  throw new InvalidArgumentError('It must be an http or https URL, e.g. http://127.0.0.1:8000/v1.')
}

/** Collects the values of a flag that may be repeated. */
export function repeated(value: string, earlier: readonly string[] | undefined): readonly string[] {
  return [...(earlier ?? []), value]
}

/**
 * Lets a command take a flag under the name that it has in the Python command line as well, so that
 * scripts written for that one go on. Help does not show it.
 *
 * @param name - with its value, e.g. `--env <variable>`
 * @param flag - the long name it has here, e.g. `--from-env`
 */
export function addPythonName(command: Command, name: string, flag: string): Command {
  const option = new Option(name).hideHelp()
  const meant = command.options.find(({ long }) => long === flag)
  if (meant === undefined) throw new TypeError(`${command.name()} has no flag ${flag}.`)
  command.addOption(option)
  // A command emits what it parses, which its declarations leave out.
  const parsed = command as unknown as EventEmitter
  // It is read, checked and collected as the flag that is meant.
  parsed.on(`option:${option.name()}`, (value) => parsed.emit(`option:${meant.name()}`, value))
  return command
}

/** Flags that say who answers the model calls. */
export interface PolicyFlags {
  policy?: string
  baseUrl?: string
  model?: string
  apiKeyEnv?: string
}

/**
 * Adds the flags that say who answers the model calls.
 *
 * @param preset - who does without any of them
 */
export function addPolicyOptions(
  command: Command,
  preset = 'default_policy of osmosis.toml',
): Command {
  return command
    .option(
      '--policy <name or module>',
      `let a policy of osmosis.toml, or a module that exports one, answer the model calls (default: ${preset})`,
    )
    .option(
      '--base-url <url>',
      'let an OpenAI-compatible endpoint answer the model calls',
      endpointUrl,
    )
    .option(
      '--model <name>',
      'model to ask for at the endpoint; without one, a model of a provider as <provider>/<model>, e.g. openai/gpt-5-mini',
    )
    .option(
      '--api-key-env <name>',
      'environment variable with the key of the endpoint (default: no key is sent; of a provider: its own variable)',
    )
}

/** Flags that say over which queue rollouts go. */
export interface QueueFlags {
  /** Its Redis, as a URL. */
  redis?: string
  /** What the names of its keys begin with. */
  redisPrefix?: string
  /** File with a key a line, for what is kept there. */
  queueKeyFile?: string
  allowPlainKeys?: boolean
  /** What fronts and workers compare instead of a digest of their sources. */
  codeVersion?: string
}

/**
 * Adds the flags that say over which queue rollouts go.
 *
 * @param redis - what naming one means for the command
 */
export function addQueueOptions(command: Command, redis: string): Command {
  return command
    .option(
      '--redis <url>',
      `${redis}: redis://<host>:<port>, or rediss:// for TLS; the password may stand in $OSMOSIS_REDIS_PASSWORD`,
    )
    .option(
      '--redis-prefix <prefix>',
      'what the names of all keys there begin with; another prefix is another queue (default: osmosis)',
    )
    .option(
      '--queue-key-file <file>',
      'encrypt what is kept there with the first key of this file, and read it with any: 32 bytes in base64, a line each',
    )
    .option(
      '--allow-plain-keys',
      'keep keys of policies and callers readable in a Redis that is not on this machine',
    )
    .option(
      '--code-version <version>',
      'what servers and workers compare, so that no worker runs rollouts of other code (default: a digest of the sources)',
    )
}

/** Flags of every command that runs rollouts, or has them run. */
export interface ProcessFlags {
  /** How the log is written. */
  logFormat: LogFormat
  /** From which importance on. */
  logLevel: LogLevel
  /** The only hosts that rollouts connect to. */
  allowHost?: readonly string[]
  /** False with `--no-private-hosts`. */
  privateHosts: boolean
  /** Processes that run user code; without, this one does. */
  workers?: number | 'auto'
  /** Seconds that user code may block the event loop of its worker. */
  stallTimeout?: number
  /** Seconds in which a worker has to end one of its rollouts. */
  progressTimeout?: number
  /** Heap of a worker, in MiB. */
  workerMemory?: number
  /** Seconds that running rollouts may go on when the process is to end. */
  drainTimeout?: number
}

export function addLogOptions(command: Command): Command {
  return command
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
}

/** @param what - what connects there */
export function addEgressOptions(command: Command, what: string): Command {
  return command
    .option(
      '--allow-host <host>',
      `connect only there for ${what}: a name, *.<domain>, an address or a subnet, with an optional port; may be repeated (default: every host)`,
      repeated,
    )
    .option(
      '--no-private-hosts',
      'connect to no loopback or private address but those that --allow-host names',
    )
}

/** @param whose - who runs workflows without these flags */
export function addWorkerOptions(command: Command, whose: string): Command {
  return command
    .option(
      '--workers <n>',
      `run workflows in this many processes of their own, or one for each core with auto (default: in the process of the ${whose})`,
      workerCount,
    )
    .option(
      '--drain-timeout <seconds>',
      `let running rollouts go on for so long when the ${whose} is told to end (default: 30)`,
      seconds,
    )
    .option(
      '--stall-timeout <seconds>',
      'end a worker whose event loop is blocked for longer (default: 30)',
      positiveSeconds,
    )
    .option(
      '--progress-timeout <seconds>',
      'end a worker that has ended none of its rollouts for longer (default: none is ended for that)',
      positiveSeconds,
    )
    .option(
      '--worker-memory <MiB>',
      'heap of a worker (default: a fair share of the memory of the machine)',
      countFrom(32),
    )
}

/** Where the process may connect to. */
export function egressOf({
  allowHost,
  privateHosts,
}: Pick<ProcessFlags, 'allowHost' | 'privateHosts'>): EgressOptions {
  return { allowedHosts: allowHost, privateAddresses: privateHosts ? 'allow' : 'refuse' }
}

/** The value of a flag that is a time. */
export function positiveSeconds(value: string): number {
  const given = decimalNumber(value)
  if (given > 0) return given
  throw new InvalidArgumentError('It must be a number of seconds above 0.')
}

function seconds(value: string): number {
  const given = decimalNumber(value)
  if (given >= 0) return given
  throw new InvalidArgumentError('It must be a number of seconds, 0 or more.')
}
