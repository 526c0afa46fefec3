import { createHash } from 'node:crypto'
import { basename, extname, join } from 'node:path'

import { OsmosisError } from '@osmosis/core'

import { parseRolloutName } from '../analysis/rollout-name.ts'

const longestName = 96
// What follows the stem: two hyphens, a UTC time and 8 hexadecimal digits.
const longestStem = longestName - 26

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
 * Makes up a run name: the config's file name, the time, and a digest of `inputs`, which is
 * whatever decides the outcome of the run, as JSON data.
 */
export function generateRunName(configFile: string, inputs: unknown, now = new Date()): string {
  const stem = basename(configFile, extname(configFile))
    .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
    .replaceAll(/^[^A-Za-z0-9]+|-+$/g, '')
    .slice(0, longestStem)
  const time = now
    .toISOString()
    .replace(/\.\d+Z$/, 'Z')
    .replaceAll(/[-:]/g, '')
  const digest = createHash('sha256').update(JSON.stringify(inputs)).digest('hex').slice(0, 8)
  return `${stem || 'eval'}-${time}-${digest}`
}
