import type { Command } from '@commander-js/extra-typings'
import type { JsonObject, PlatformClient } from '@osmosis/platform'

import { addHostedRunCommands, unlessLoggedOut } from './hosted-runs.ts'
import { runKinds, waitingStatuses, type FoundHostedRun } from './run-kinds.ts'
import type { ProgramSettings } from '../platform-flags.ts'

/** Adds the commands for training runs of the platform. */
export function addHostedTrainingCommands(train: Command, settings: ProgramSettings): void {
  addHostedRunCommands(train, 'train', { settings, detailsOf })
}

const unfinishedStatuses: readonly string[] = [...waitingStatuses, 'running']

async function detailsOf(
  client: PlatformClient,
  name: string,
  run: FoundHostedRun,
): Promise<JsonObject> {
  return {
    checkpoints: await checkpointsOf(client, name, run),
    in_progress: run.status === 'running',
  }
}

/** The checkpoints of a run that has ended. */
async function checkpointsOf(
  client: PlatformClient,
  name: string,
  { status }: FoundHostedRun,
): Promise<readonly JsonObject[]> {
  const { objectsOf } = await import('@osmosis/platform')
  if (unfinishedStatuses.includes(status)) return []
  try {
    const answer = await client.request([runKinds.train.route, name, 'checkpoints'])
    return objectsOf(answer['checkpoints'])
  } catch (error) {
    await unlessLoggedOut(error)
    return []
  }
}
