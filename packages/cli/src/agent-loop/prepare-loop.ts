import {
  createApp,
  type AgentLoopApp,
  type RolloutAgentLoop,
  type RolloutSettingsInput,
} from '@osmosis/agent-loop'
import { OsmosisError } from '@osmosis/core'
import { readDataset, type DatasetRow } from '@osmosis/eval'
import { createStderrLogger } from '@osmosis/server'

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

/** The app that is served in production, with a log of errors only. */
export function createLoopApp(
  loop: RolloutAgentLoop,
  { log }: Pick<LoopFlags, 'log'>,
  settings: RolloutSettingsInput = {},
): AgentLoopApp {
  return createApp(loop, { logger: createStderrLogger('error'), debugDir: log, settings })
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
