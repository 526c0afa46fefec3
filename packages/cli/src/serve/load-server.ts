import { randomBytes } from 'node:crypto'

import type { RowCheck } from '@osmosis/eval'
import type { WorkerEntrypoint } from '@osmosis/server/child'

import { serveCommand } from './serve-command.ts'
import type { ServeFlags } from './serve.ts'
import type { EntrypointFacts } from '../child/served-workflow.ts'

/** What the server's process serves, and how: the order of `startServerProcess`. */
export interface ServerOrder extends Pick<ServeFlags, 'workers' | 'concurrency' | 'set' | 'redis'> {
  /** The argument of `osmosis serve`. */
  readonly entrypoint: string
}

/** What the server's process says when it listens. */
export interface ListeningServerFacts extends EntrypointFacts {
  readonly url: string
  readonly apiKey: string
}

/** Serves an entrypoint for the command that started this process. */
export async function loadServer({
  entrypoint,
  set = {},
  ...flags
}: ServerOrder): Promise<WorkerEntrypoint> {
  const apiKey = randomBytes(32).toString('base64url')
  const { url, facts, check, close } = await serveCommand(entrypoint, {
    ...flags,
    // Without fields the flag would be refused for agent loops.
    ...(Object.keys(set).length === 0 ? {} : { set }),
    apiKey,
    auth: true,
    host: '127.0.0.1',
    port: 0,
    privateHosts: true,
    logLevel: 'info',
    // They may contain secrets of the evaluation that its server cannot recognise.
    trajectories: false,
  })
  return {
    facts: { url, apiKey, ...facts } satisfies ListeningServerFacts,
    answer: async (rows) => check(rows as Parameters<RowCheck>[0]),
    close,
    // The server logs it, fails its rollouts and ends.
    onStrayError: () => {},
  }
}
