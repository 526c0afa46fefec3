import { createHash } from 'node:crypto'

import { OsmosisError } from '@osmosis/core'
import type { RolloutRequest } from '@osmosis/runtime'
import type { Logger } from '@osmosis/server'

import type { TrainerLink } from '../trainer-link.ts'
import { TrinityLink } from './trinity-link.ts'

/** One row of a dataset, as `readDataset` of `@osmosis/eval` gives it. */
export type TrinityRow = Pick<RolloutRequest, 'initialMessages' | 'label' | 'metadata'>

/** Options of {@link trinity}. */
export interface TrinityOptions {
  /** Where the explorer of Trinity-RFT serves. */
  readonly url: string
  readonly dataset: readonly TrinityRow[]
  /** How often each row is run in an epoch; its attempts are a group. At least 1. */
  readonly attempts: number
  /** How many rows are handed to the training at a time. At least 1. */
  readonly groupsPerCommit: number
  /** How often the dataset is gone through. Default: 1. */
  readonly epochs?: number | undefined
  /**
   * Where it is kept how far the run has come, so that the next start goes on from there. Default: nowhere;
   * each start begins with the first row.
   */
  readonly journalFile?: string | undefined
  /** What the ids of the run's rollouts begin with. Default: random, or what the journal says. */
  readonly runName?: string | undefined
  /** Settings of model calls, such as `temperature`; they win over the agent's. */
  readonly body?: Readonly<Record<string, unknown>> | undefined
  /** How long a workflow may take. Seconds; default 3600, null for any time. */
  readonly agentTimeoutSeconds?: number | null | undefined
  /** How long a grader may take. Seconds; default 600, null for any time. */
  readonly graderTimeoutSeconds?: number | null | undefined
  /** Default: nothing is logged. */
  readonly logger?: Logger | undefined
}

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
