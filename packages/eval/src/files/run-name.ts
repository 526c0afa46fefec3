import { basename, extname, join } from 'node:path'

import { OsmosisError } from '@osmosis/core'

import { parseRolloutName } from '../analysis/rollout-name.ts'

const longestName = 96
/** So that commands with the names of two runs fit a line. */
const longestStem = 24

/** Where a workspace keeps its evaluations unless told otherwise: `.osmosis/evals`. */
export function defaultOutputRoot(workspaceRoot: string): string {
  return join(workspaceRoot, '.osmosis', 'evals')
}

/**
 * Checks the name of a run, which becomes the name of its folder.
 *
 * @throws OsmosisError with code `invalid_config`
 */
export function assertRunName(name: string): void {
  if (isTaken(name)) {
    throw new OsmosisError(
      'invalid_config',
      `A run cannot be named '${name}': commands take that for ${name === 'latest' ? 'the newest run' : 'a rollout'}. Put a word before it, such as 'run-${name}'.`,
    )
  }
  if (/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name) && name.length <= longestName) return
  throw new OsmosisError(
    'invalid_config',
    `A run name has up to ${longestName} letters, digits, '.', '_' and '-' and starts with a letter or digit, got '${name}'.`,
  )
}

/** Whether commands take the name for something else: the newest run, or a rollout such as `12.1`. */
function isTaken(name: string): boolean {
  return name === 'latest' || parseRolloutName(name) !== undefined
}

/**
 * Makes up a run name: the name of the config's file, and the number behind the highest that is in use.
 *
 * @param taken - names in use
 */
export function generateRunName(configFile: string, taken: Iterable<string>): string {
  const stem = basename(configFile, extname(configFile))
    .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
    .slice(0, longestStem)
    .replaceAll(/^[^A-Za-z0-9]+|-+$/g, '')
  const start = `${stem || 'eval'}-`
  const numbers = Array.from(taken, (name) =>
    name.startsWith(start) ? /^(\d+)(?:\.\d+)?$/.exec(name.slice(start.length))?.[1] : undefined,
  )
  return `${start}${Math.max(0, ...numbers.map(Number).filter(Number.isSafeInteger)) + 1}`
}
