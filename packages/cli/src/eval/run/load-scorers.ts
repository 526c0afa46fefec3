import { isRewardFunction } from '@osmosis/core'
import { toScorer, type Scorer } from '@osmosis/eval'

import { resolvePath } from '../../command/command-context.ts'
import { invalid, invalidEntrypoint } from '../../command/wrong-use.ts'
import { loadExports, namedExport, splitSpec } from '../../inputs/load-module.ts'

/**
 * Loads eval functions, each named as `rewards.ts:exact`.
 *
 * @throws OsmosisError with code `invalid_config` for an invalid name, `invalid_entrypoint` when it is
 * not an eval function
 */
export async function loadScorers(specs: readonly string[]): Promise<Scorer[]> {
  const seen = new Map<string, string>()
  const scorers: Scorer[] = []
  for (const spec of specs) {
    const { file, name } = splitSpec(spec)
    if (name === undefined) {
      throw invalid(
        `--eval-fn must name a file and an export, e.g. rewards.ts:exact; got '${spec}'.`,
      )
    }
    const identity = `${resolvePath(file)}:${name}`
    const earlier = seen.get(identity)
    if (earlier !== undefined) {
      const same = earlier === spec ? '' : `, the first time as '${earlier}'`
      throw invalid(`--eval-fn names '${spec}' twice${same}. Remove one of them.`)
    }
    seen.set(identity, spec)
    const value = namedExport(await loadExports('eval function', file), name)
    if (typeof value !== 'function') {
      throw invalidEntrypoint(
        `'${spec}' must be a function that returns a number, got ${value === null ? 'null' : typeof value}.`,
      )
    }
    if (value.length > 1 && !isRewardFunction(value)) {
      throw invalidEntrypoint(
        `'${spec}' takes ${value.length} parameters. Wrap it in defineReward() to be called with (solutionStr, groundTruth, extraInfo), or let it take one object: { messages, solutionStr, groundTruth, metadata, reward }.`,
      )
    }
    scorers.push(toScorer(spec, value as (...args: never[]) => unknown))
  }
  return scorers
}
