import { createHash } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'

import type { TrainerLink } from '../trainer-link.ts'
import { TrinityLink, type TrinityOptions, type TrinityRow } from './trinity-link.ts'

/**
 * Trains over a dataset with Trinity-RFT, whose explorer serves: rows are run in groups of attempts, in their
 * order, each sample's answers are rewarded with its own reward, and when all groups of a batch have ended,
 * that is committed. A commit of Trinity takes whatever has a reward, so rewards are told right before it,
 * and there is one worker for an explorer, and nobody else who commits.
 *
 * What has no reward is never trained, so an attempt that failed is run once more, and a group that a
 * restart has interrupted is run again as a whole: its attempts are compared with one another.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function trinity(options: TrinityOptions): TrainerLink {
  const { dataset, attempts, groupsPerCommit, epochs = 1 } = options
  for (const [name, value] of Object.entries({ attempts, groupsPerCommit, epochs })) {
    if (Number.isInteger(value) && value >= 1) continue
    throw new OsmosisError(
      'invalid_config',
      `${name} must be a whole number of at least 1, got ${value}.`,
    )
  }
  if (dataset.length === 0) throw new OsmosisError('invalid_config', 'The dataset has no rows.')
  return new TrinityLink(options, { digest: digestOf(dataset), rows: dataset.length, attempts })
}

function digestOf(dataset: readonly TrinityRow[]): string {
  const hash = createHash('sha256')
  for (const { initialMessages, label, metadata } of dataset) {
    hash.update(`${JSON.stringify([initialMessages, label, metadata])}\n`)
  }
  return hash.digest('hex').slice(0, 16)
}
