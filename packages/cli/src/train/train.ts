import type { Command } from '@commander-js/extra-typings'
import type { JsonObject, PlatformClient } from '@osmosis/platform'

import {
  addHostedRunCommands,
  runKinds,
  unlessLoggedOut,
  waitingStatuses,
  type FoundHostedRun,
} from '../platform/runs/hosted-runs.ts'
import type { ProgramSettings } from '../platform/platform-flags.ts'
import { addTrainLocalCommand } from './local.ts'
import { addTrainTinkerCommand } from './tinker.ts'

/** Adds `train` with its commands. */
export function addTrainCommands(program: Command, settings: ProgramSettings): void {
  const train = program
    .command('train')
    .description('train models here, on a Tinker service, or on the platform')
  addTrainLocalCommand(train, settings.setExitCode)
  addTrainTinkerCommand(train, settings.setExitCode)
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
