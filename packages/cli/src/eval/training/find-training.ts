import path from 'node:path'

import { isTraining, listTrainings, trainingRuns } from '@osmosis/eval'

import { resolvePath } from '../../command/command-context.ts'

/** A training on this machine. */
export interface FoundTraining {
  readonly name: string
  /** The folder; absolute. */
  readonly location: string
}

/** The folder of the trainings, beside that of the evaluations: `.osmosis/training` in a workspace. */
export function trainingsRoot(runsRoot: string): string {
  return path.join(path.dirname(runsRoot), 'training')
}

/** A training by its name or its folder; undefined when there is none. */
export async function findTraining(
  name: string,
  runsRoot: string,
): Promise<FoundTraining | undefined> {
  const folder = resolvePath(name)
  if (isTraining(folder)) return { name: path.basename(folder), location: folder }
  return (await listTrainings(trainingsRoot(runsRoot))).find((training) => training.name === name)
}

/** The folder of the run that `<training>/<run>` names; undefined when there is no such training. */
export async function findTrainingRun(name: string, runsRoot: string): Promise<string | undefined> {
  const [own, run] = [path.dirname(name), path.basename(name)]
  if (own === '.' || run.startsWith('.')) return undefined
  const training = await findTraining(own, runsRoot)
  if (training === undefined) return undefined
  return path.join(trainingRuns(training.location), run)
}
