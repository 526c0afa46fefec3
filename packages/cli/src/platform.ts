import type { Command } from '@commander-js/extra-typings'
import type { JsonObject, PlatformClient } from '@osmosis/platform'

import { addLoginCommands } from './platform/auth.ts'
import { addHostedDatasetCommands } from './platform/dataset.ts'
import type { ProgramSettings } from './platform/platform-flags.ts'
import { addHostedEvalCommands } from './platform/runs/hosted-evals.ts'
import { addSecretCommands } from './platform/secret.ts'
import { addHostedRunCommands, unlessLoggedOut } from './platform/runs/hosted-runs.ts'
import { runKinds, waitingStatuses, type FoundHostedRun } from './platform/runs/run-kinds.ts'

/** Topics of the program that also have commands of the platform, by the spellings of its guides. */
interface SharedTopics {
  readonly datasets: Command
  readonly evals: Command
  readonly train: Command
}

/**
 * Adds `platform` with its commands, and the same commands as the platform's guides and its Python command spell them. Help
 * lists only two of these, `eval submit` and `train submit`.
 *
 * @returns what help does not list
 */
export function addPlatformCommands(
  program: Command,
  { datasets, evals, train }: SharedTopics,
  settings: ProgramSettings,
): ReadonlySet<unknown> {
  const platform = program
    .command('platform')
    .description('the hosted platform: login, datasets, secrets and runs')
  addLoginCommands(platform, settings)
  addHostedDatasetCommands(
    platform.command('dataset').description('datasets of the workspace'),
    settings,
  )
  addSecretCommands(platform.command('secret').description('secrets of runs'), settings)
  addHostedEvalCommands(platform.command('eval').description('evaluation runs'), settings)
  addHostedTrainingCommands(platform.command('train').description('training runs'), settings)

  const topics = [program, datasets, evals, train]
  const listed = new Set<unknown>(topics.flatMap(({ commands }) => [...commands]))
  addLoginCommands(program, settings)
  addLoginCommands(program.command('auth'), settings)
  addSecretCommands(program.command('secret'), settings)
  addHostedDatasetCommands(datasets, settings)
  addHostedEvalCommands(evals.commandsGroup('On the platform:'), settings)
  addHostedTrainingCommands(train, settings)
  const added = topics.flatMap(({ commands }) => [...commands])
  return new Set<unknown>(
    added.filter((command) => !listed.has(command) && command.name() !== 'submit'),
  )
}

/** Adds the commands for training runs of the platform. */
function addHostedTrainingCommands(train: Command, settings: ProgramSettings): void {
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
