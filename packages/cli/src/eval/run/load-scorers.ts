import { isRewardFunction, OsmosisError } from '@osmosis/core'
import { toScorer, type Scorer } from '@osmosis/eval'

import { fromHere } from '../../command/surroundings.ts'
import { loadExports, namedExport, splitSpec } from '../../inputs/load-module.ts'

/**
 * Loads eval functions, each named as `rewards.ts:exact`.
 *
 * @throws OsmosisError with code `invalid_config` for names that cannot be, `invalid_entrypoint`
 * for what is behind them
 */
export async function loadScorers(specs: readonly string[]): Promise<Scorer[]> {
  const seen = new Map<string, string>()
  const scorers: Scorer[] = []
  for (const spec of specs) {
    const { file, name } = splitSpec(spec)
    if (name === undefined) {
      throw new OsmosisError(
        'invalid_config',
        `--eval-fn must name a file and an export, as rewards.ts:exact does; got '${spec}'.`,
      )
    }
    const identity = `${fromHere(file)}:${name}`
    const earlier = seen.get(identity)
    if (earlier !== undefined) throw twice(earlier, spec)
    seen.set(identity, spec)
    scorers.push(await loadScorer(spec, file, name))
  }
  return scorers
}

async function loadScorer(spec: string, file: string, name: string): Promise<Scorer> {
  const value = namedExport(await loadExports('eval function', file), name)
  if (typeof value !== 'function') {
    throw new OsmosisError(
      'invalid_entrypoint',
      `'${spec}' must be a function that returns a number, got ${value === null ? 'null' : typeof value}.`,
    )
  }
  if (value.length > 1 && !isRewardFunction(value)) {
    throw new OsmosisError(
      'invalid_entrypoint',
      `'${spec}' takes ${value.length} parameters. Wrap it in defineReward() to be called with (solutionStr, groundTruth, extraInfo), or let it take one object: { messages, solutionStr, groundTruth, metadata, reward }.`,
    )
  }
  return toScorer(spec, value as (...args: never[]) => unknown)
}

function twice(earlier: string, spec: string): OsmosisError {
  const same = earlier === spec ? '' : `, the first time as '${earlier}'`
  return new OsmosisError(
    'invalid_config',
    `--eval-fn names '${spec}' twice${same}. Leave one out.`,
  )
}
