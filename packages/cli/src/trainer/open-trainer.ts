import { OsmosisError, type RewardRule } from '@osmosis/core'
import type { Logger } from '@osmosis/server'
import { agentLightning, type AgentLightningOptions, type TrainerLink } from '@osmosis/trainers'

import { loadExports, namedExport } from '../module-export.ts'
import type { TrainerFlags } from './trainer-options.ts'

/**
 * The link to the trainer that the flags name.
 *
 * @throws OsmosisError with code `invalid_config`, also when they name none; `invalid_entrypoint` for a
 * module of rows that cannot be used
 */
export async function openTrainer(flags: TrainerFlags, logger: Logger): Promise<TrainerLink> {
  const { agentLightning: url, retries } = flags
  if (url === undefined) throw new OsmosisError('invalid_config', 'No trainer is named.')
  // oxlint-disable-next-line node/no-process-env
  const apiKey = process.env['OSMOSIS_TRAINER_KEY'] || undefined
  const rows = flags.rows === undefined ? undefined : await loadRows(flags.rows)
  return agentLightning({ url, apiKey, retries, reward: rewardRule(flags.reward), rows, logger })
}

function rewardRule(given: string | undefined): RewardRule | undefined {
  return given === undefined || given === 'mean' || given === 'sum' ? given : { sampleId: given }
}

async function loadRows(file: string): Promise<NonNullable<AgentLightningOptions['rows']>> {
  const loaded = await loadExports('module of rows', file)
  const rows = namedExport(loaded, 'rows')
  if (typeof rows === 'function') return rows as NonNullable<AgentLightningOptions['rows']>
  throw new OsmosisError('invalid_entrypoint', `${loaded.file} exports rows, which is no function.`)
}
