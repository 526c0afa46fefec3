import { OsmosisError, type RewardRule } from '@osmosis/core'
import { assertApiKey } from '@osmosis/core/http'
import type { Logger } from '@osmosis/server'
import {
  agentLightning,
  trinity,
  type AgentLightningOptions,
  type TrainerLink,
} from '@osmosis/trainers'

import { loadExports, namedExport } from '../module-export.ts'
import type { TrainerFlags } from './trainer-options.ts'
import { environment, namedHere } from '../surroundings.ts'

/** A trainer whose rollouts are to be run. */
export interface OpenTrainer {
  readonly link: TrainerLink
  /** How many of them have to be able to run at the same time. */
  readonly leastConcurrency: number
  /** How many attempts at a row it has; null when it does not say which belong together. */
  readonly attempts: number | null
}

/**
 * The link to the trainer that the flags name.
 *
 * @throws OsmosisError with code `invalid_config`, also when they name none; `invalid_entrypoint` for a
 * module of rows that cannot be used, `invalid_dataset` for a dataset that cannot be read
 */
export async function openTrainer(flags: TrainerFlags, logger: Logger): Promise<OpenTrainer> {
  if (flags.trinity !== undefined) return openTrinity(flags.trinity, flags, logger)
  const { agentLightning: url, retries } = flags
  if (url === undefined) throw new OsmosisError('invalid_config', 'No trainer is named.')
  const apiKey = environment()['OSMOSIS_TRAINER_KEY'] || undefined
  assertApiKey(apiKey, 'OSMOSIS_TRAINER_KEY')
  const rows = flags.rows === undefined ? undefined : await loadRows(flags.rows)
  const reward = rewardRule(flags.reward)
  return {
    link: agentLightning({ url, apiKey, retries, reward, rows, logger }),
    leastConcurrency: 1,
    attempts: null,
  }
}

async function openTrinity(url: string, flags: TrainerFlags, logger: Logger): Promise<OpenTrainer> {
  const { dataset: file, attempts, groupsPerCommit, epochs, journal } = flags
  if (file === undefined || attempts === undefined || groupsPerCommit === undefined) {
    throw new OsmosisError(
      'invalid_config',
      'Say what Trinity is trained on: --dataset <file> --attempts <n> --groups-per-commit <n>.',
    )
  }
  const journalFile = journal && namedHere(journal)
  const { readDataset } = await import('@osmosis/eval')
  const dataset = await readDataset(namedHere(file))
  return {
    link: trinity({ url, dataset, attempts, groupsPerCommit, epochs, journalFile, logger }),
    leastConcurrency: attempts,
    attempts,
  }
}

function rewardRule(given: string | undefined): RewardRule | undefined {
  return given === undefined || given === 'mean' || given === 'sum' ? given : { sampleId: given }
}

async function loadRows(file: string): Promise<NonNullable<AgentLightningOptions['rows']>> {
  const loaded = await loadExports('module of rows', file)
  const rows = namedExport(loaded, 'rows')
  if (typeof rows === 'function') return rows as NonNullable<AgentLightningOptions['rows']>
  throw new OsmosisError(
    'invalid_entrypoint',
    `${loaded.file} exports rows, which is not a function.`,
  )
}
