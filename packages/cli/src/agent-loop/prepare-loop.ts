import { randomBytes } from 'node:crypto'

import {
  createApp,
  type AgentLoopApp,
  type RolloutAgentLoop,
  type RolloutSettingsInput,
} from '@osmosis/agent-loop'
import type { ServerAddress } from '@osmosis/controller'
import { OsmosisError } from '@osmosis/core'
import { readDataset, type DatasetRow } from '@osmosis/eval'
import { createStderrLogger, serve } from '@osmosis/server'

import { checkAgentLoop } from './check-agent-loop.ts'
import { loadAgentLoop, type LoadedAgentLoop } from './load-agent-loop.ts'
import { assertLogFolder } from './log-folder.ts'
import type { LoopFlags } from './loop-flags.ts'
import { assertOutputFile } from './output-file.ts'

/** What is to be run. */
export interface PreparedLoop extends LoadedAgentLoop {
  readonly rows: readonly DatasetRow[]
}

/**
 * Loads and checks a loop, and the rows to run it on.
 *
 * @throws OsmosisError that says which flag is wrong, and AgentLoopValidationError
 */
export async function prepareLoop(flags: LoopFlags): Promise<PreparedLoop> {
  const loaded = await loadAgentLoop(flags.module)
  await checkAgentLoop(loaded.loop)
  const rows = await chosenRows(flags)
  await assertOutputFile(flags.output)
  await assertLogFolder(flags.log)
  return { ...loaded, rows }
}

/** A loop that is served on this machine. */
export interface ServedLoop extends AsyncDisposable {
  readonly app: AgentLoopApp
  readonly server: ServerAddress
}

/**
 * Serves a loop as in production, on a free port of this machine and with a key of its own; only
 * errors are logged. The caller disposes of it.
 */
export async function serveLoop(
  loop: RolloutAgentLoop,
  { log }: Pick<LoopFlags, 'log'>,
  settings: RolloutSettingsInput = {},
): Promise<ServedLoop> {
  const apiKey = randomBytes(32).toString('base64url')
  const logger = createStderrLogger('error')
  const app = createApp(loop, { apiKey, logger, debugDir: log, settings })
  const listening = await serve(app, { port: 0, handleSignals: false })
  return {
    app,
    server: { url: listening.url, apiKey },
    [Symbol.asyncDispose]: () => listening.close(),
  }
}

async function chosenRows({ dataset, offset, limit }: LoopFlags): Promise<DatasetRow[]> {
  const all = await readDataset(dataset)
  const rows = all.slice(offset, limit === undefined ? undefined : offset + limit)
  if (rows.length > 0) return rows
  throw new OsmosisError(
    'invalid_dataset',
    `No rows to run: ${dataset} has ${all.length}, and --offset ${offset} leaves none of them.`,
  )
}
