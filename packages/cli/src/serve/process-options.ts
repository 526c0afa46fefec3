import type { EgressOptions } from '@osmosis/core'
import type { LogFormat, LogLevel } from '@osmosis/server'
import { InvalidArgumentError, Option, type Command } from 'commander'

import { countFrom, decimalNumber, repeated, workerCount } from '../flag-values.ts'

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
