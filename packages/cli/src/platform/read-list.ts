import {
  objectsOf,
  readPages,
  textOf,
  type JsonObject,
  type Page,
  type PlatformClient,
} from '@osmosis/platform'

import type { CommandOutput } from './command-output.ts'
import type { ListFlags, RunLogFlags } from './platform-flags.ts'

/** Reads what the flags of a list ask for. */
export async function readList(
  client: Pick<PlatformClient, 'request'>,
  path: readonly string[],
  key: string,
  { limit, offset, all }: ListFlags,
): Promise<Page> {
  return readPages((query) => client.request(path, { query }), key, {
    ...(all && { all }),
    ...(limit !== undefined && { limit }),
    ...(offset !== undefined && { offset }),
  })
}

/** Prints the log lines that the flags ask for. */
export async function showLogs(
  client: PlatformClient,
  path: readonly string[],
  { limit = 50, direction = 'older', cursor }: RunLogFlags,
  output: CommandOutput,
): Promise<void> {
  const answer = await client.request([...path, 'logs'], { query: { limit, direction, cursor } })
  const logs = objectsOf(answer['logs'])
  const next = textOf(answer['next_cursor']) ?? null
  output.lines(logs, logs.map(logLine), next)
}

function logLine({ timestamp, level, step, message }: JsonObject): string {
  return [timestamp, level, step, message].filter((part) => typeof part === 'string').join('  ')
}
