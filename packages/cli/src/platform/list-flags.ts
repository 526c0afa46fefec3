import {
  PlatformError,
  objectsOf,
  readPages,
  textOf,
  type JsonObject,
  type Page,
  type PlatformClient,
} from '@osmosis/platform'
import { Option, type Command } from 'commander'

import { countFrom } from '../flag-values.ts'
import type { CommandOutput } from './command-output.ts'
import type { PlatformFlags } from './platform-flags.ts'

/** Flags of lists. */
export interface ListFlags extends PlatformFlags {
  limit?: number
  offset?: number
  all?: boolean
}

/** Adds them. */
export function addListFlags(command: Command): Command {
  return command
    .option('--limit <items>', 'at most so many, up to 50 (default: 50)', countFrom(1))
    .option('--offset <items>', 'leave out so many first', countFrom(0))
    .addOption(new Option('--all', 'every page').conflicts('limit'))
}

/** Reads what the flags of a list ask for. */
export async function readList(
  client: Pick<PlatformClient, 'request'>,
  path: readonly string[],
  key: string,
  { limit, offset, all }: ListFlags,
): Promise<Page> {
  if (limit !== undefined && limit > 50) {
    throw new PlatformError('VALIDATION', `--limit is 50 at most, got ${limit}: take --all.`)
  }
  return readPages((query) => client.request(path, { query }), key, {
    ...(all && { all }),
    ...(limit !== undefined && { limit }),
    ...(offset !== undefined && { offset }),
  })
}

/** Flags of `logs`. */
export interface LogFlags extends PlatformFlags {
  limit?: number
  direction?: string
  cursor?: string
}

/** Adds them. */
export function addLogFlags(command: Command): Command {
  return command
    .option('--limit <lines>', 'at most so many, up to 200 (default: 50)', countFrom(1))
    .addOption(
      new Option('--direction <direction>', 'which lines come first').choices(['older', 'newer']),
    )
    .option('--cursor <cursor>', 'where to go on, as printed behind the lines')
}

/** Prints the log lines that the flags ask for. */
export async function showLogs(
  client: PlatformClient,
  path: readonly string[],
  { limit = 50, direction, cursor }: LogFlags,
  output: CommandOutput,
): Promise<void> {
  if (limit > 200) throw new PlatformError('VALIDATION', `--limit is 200 at most, got ${limit}.`)
  const answer = await client.request([...path, 'logs'], { query: { limit, direction, cursor } })
  const logs = objectsOf(answer['logs'])
  const next = textOf(answer['next_cursor']) ?? null
  output.lines(logs, logs.map(logLine), next)
}

function logLine({ timestamp, level, step, message }: JsonObject): string {
  return [timestamp, level, step, message].filter((part) => typeof part === 'string').join('  ')
}
