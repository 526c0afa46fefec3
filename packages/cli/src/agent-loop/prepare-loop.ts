import { randomBytes } from 'node:crypto'

import {
  createApp,
  type AgentLoopApp,
  type RolloutAgentLoop,
  type RolloutSettingsInput,
} from '@osmosis/agent-loop'
import type { ServerAddress } from '@osmosis/controller'
import { readDataset, selectRows, type DatasetRow } from '@osmosis/eval'
import { serve } from '@osmosis/server'

import { checkAgentLoop } from './validate-command.ts'
import { loadAgentLoop, type LoadedAgentLoop } from './load-agent-loop.ts'
import type { TestFlags } from './agent-loop-commands.ts'
import { commandLogger } from '../server-end.ts'
import { assertLogFolder, assertOutputFile } from './output-files.ts'
import { fromHere, namedHere } from '../surroundings.ts'

/** What is to be run. */
export interface PreparedLoop extends LoadedAgentLoop {
  readonly rows: readonly DatasetRow[]
}

/**
 * Loads and checks a loop, and the rows to run it on.
 *
 * @throws OsmosisError that says which flag is wrong, and AgentLoopValidationError
 */
export async function prepareLoop(flags: TestFlags): Promise<PreparedLoop> {
  const loaded = await loadAgentLoop(flags.module)
  await checkAgentLoop(loaded.loop)
  const { offset, limit = null } = flags
  const rows = selectRows(await readDataset(namedHere(flags.dataset)), { offset, limit })
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
  { log }: Pick<TestFlags, 'log'>,
  settings: RolloutSettingsInput = {},
): Promise<ServedLoop> {
  const apiKey = randomBytes(32).toString('base64url')
  const logger = commandLogger({ logLevel: 'error', logFormat: 'auto' })
  const app = createApp(loop, { apiKey, logger, debugDir: log && fromHere(log), settings })
  const listening = await serve(app, { port: 0, handleSignals: false })
  return {
    app,
    server: { url: listening.url, apiKey },
    [Symbol.asyncDispose]: () => listening.close(),
  }
}
