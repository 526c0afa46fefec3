import { existsSync } from 'node:fs'
import path from 'node:path'

import { OsmosisError } from '@osmosis/core'
import { defaultOutputRoot, findWorkspaceRoot, listRuns, type ListedRun } from '@osmosis/eval'
import { parseRolloutName } from '@osmosis/eval/analysis'

import { fromHere, workingFolder } from '../../command/surroundings.ts'

/** A run that was found by what a person called it. */
export interface FoundRun {
  /** The folder; absolute. */
  readonly location: string
  /** `baseline`, or the name of a re-grading; undefined for the run itself. */
  readonly variant: string | undefined
}

/** The folder of the runs: of a flag, else of the workspace. Absolute. */
export async function runsRoot(output: string | undefined): Promise<string> {
  if (output !== undefined) return fromHere(output)
  // The search begins in the folder of a file.
  return defaultOutputRoot((await findWorkspaceRoot(fromHere('file'))) ?? workingFolder())
}

/**
 * Finds a run by its name, by how its name begins, by its folder, or as `latest`, which is the newest;
 * with `@baseline` or `@<grading>` behind it.
 *
 * @throws OsmosisError with code `invalid_config` when there is none, or there are several
 */
export async function findRun(name: string, root: string): Promise<FoundRun> {
  const at = name.lastIndexOf('@')
  const [own, variant] = at === -1 ? [name, undefined] : [name.slice(0, at), name.slice(at + 1)]
  const folder = fromHere(own)
  if (own !== '' && existsSync(path.join(folder, 'manifest.json')))
    return { location: folder, variant }
  const runs = await listRuns(root)
  const { location } = own === 'latest' || own === '' ? newest(runs, root) : byName(runs, own, root)
  return { location, variant }
}

/** Whether a text can name a rollout, as `12` and `12.1` do. */
export function isItemName(text: string): boolean {
  return parseRolloutName(text) !== undefined
}

/** What commands call a run: its name where that is enough, else its folder. */
export async function commandName(location: string): Promise<string> {
  const isUsual = path.dirname(location) === (await runsRoot(undefined))
  if (isUsual) return path.basename(location)
  const relative = path.relative(workingFolder(), location)
  return relative === '' || relative.startsWith('..') ? location : relative
}

function newest(runs: readonly ListedRun[], root: string): ListedRun {
  const [run] = runs
  if (run !== undefined) return run
  throw new OsmosisError(
    'invalid_config',
    `There are no runs in ${root}: osmosis eval run starts one, and --output names another folder.`,
  )
}

function byName(runs: readonly ListedRun[], name: string, root: string): ListedRun {
  const exact = runs.find((run) => run.name === name)
  if (exact !== undefined) return exact
  const [one, ...others] = runs.filter((run) => run.name.startsWith(name))
  if (one !== undefined && others.length === 0) return one
  if (one !== undefined) {
    throw new OsmosisError(
      'invalid_config',
      `The names of several runs begin with ${name}: ${namesOf([one, ...others])}.`,
    )
  }
  const known = runs.length === 0 ? 'there are none' : `there are ${namesOf(runs)}`
  throw new OsmosisError('invalid_config', `There is no run ${name} in ${root}: ${known}.`)
}

function namesOf(runs: readonly ListedRun[]): string {
  const names = runs.slice(0, 8).map((run) => run.name)
  const rest = runs.length - names.length
  return names.join(', ') + (rest > 0 ? ` and ${rest} more (osmosis eval runs)` : '')
}
