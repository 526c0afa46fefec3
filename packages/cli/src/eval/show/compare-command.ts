import { OsmosisError } from '@osmosis/core'
import { compareRuns, type Comparison } from '@osmosis/eval/analysis'

import { printError, printOut } from '../../command/surroundings.ts'
import { outputWidth } from '../../command/terminal-text.ts'
import type { EvalCompareFlags } from '../compare.ts'
import { comparisonLines, comparisonMarkdown, type ComparedRuns } from './comparison-text.ts'
import { findRun, runsRoot } from './find-run.ts'
import { openShownRun, type ShownRun } from './shown-run.ts'

const gateFailedCode = 3

/**
 * Compares two runs over the rows that both have. Resolves with the exit code: 3 when B is worse by more
 * than `--fail-if-worse` allows, and the 95 % interval of the loss is on that side of 0.
 *
 * @throws OsmosisError with code `invalid_config` for a run or facet that is not there, and for runs
 * without a row in common; `damaged_run`
 */
export async function evalCompareCommand(
  nameA: string,
  nameB: string,
  flags: EvalCompareFlags,
): Promise<number> {
  const root = await runsRoot(flags.output)
  const [a, b] = [
    await openShownRun(await findRun(nameA, root)),
    await openShownRun(await findRun(nameB, root)),
  ]
  if (a.reader.location === b.reader.location && a.name === b.name) {
    printError(`warning: ${a.name} is compared with itself: nothing can differ.\n`)
  }
  const { metric, by, failIfWorse } = flags
  const facet = by === undefined ? undefined : facetOf(b, by)
  const comparison = compareRuns(a.table, b.table, {
    metric,
    ...(facet !== undefined && { by: facet }),
  })
  if (comparison.difference.rows === 0) {
    throw new OsmosisError(
      'invalid_config',
      `${a.name} and ${b.name} have no row in common that has ${metric === 'pass' ? 'ended' : 'a value'} in both. Rows are the same when their id column is, else when prompt, label and metadata are.`,
    )
  }
  const runs: ComparedRuns = { a, b, comparison, by: facet }
  print(flags, runs)
  if (failIfWorse === undefined || !isWorse(comparison, failIfWorse === true ? 0 : failIfWorse))
    return 0
  const limit =
    failIfWorse === true
      ? ''
      : ` more than ${failIfWorse} ${metric === 'pass' ? 'points' : ''}`.trimEnd()
  printError(
    `error: ${b.name} is worse than ${a.name}, by${limit === '' ? ' more than these rows vary' : limit}.\n`,
  )
  return gateFailedCode
}

/** Whether there is a loss that is no chance, and larger than that: points of the pass rate, else rewards. */
function isWorse({ verdict, difference: { value }, metric }: Comparison, most: number): boolean {
  if (verdict.tone !== 'worse' || value === null) return false
  const loss = metric === 'pass' ? -100 * value : -value
  // 5 points are not more than 5 points, whatever the last digit says.
  return loss > most + 1e-9
}

/** A facet in the spelling of the run. */
function facetOf({ table, name }: ShownRun, wanted: string): string {
  const names = Object.keys(table.document.rows.facets)
  const found = names.find((own) => own.toLowerCase() === wanted.toLowerCase())
  if (found !== undefined) return found
  const known =
    names.length === 0 ? 'they have nothing to be grouped by' : `there are ${names.join(', ')}`
  throw new OsmosisError('invalid_config', `The rows of ${name} have no ${wanted}: ${known}.`)
}

function print({ json, markdown }: EvalCompareFlags, runs: ComparedRuns): void {
  const text =
    json === true
      ? JSON.stringify(comparisonDocument(runs), null, 2)
      : markdown === true
        ? comparisonMarkdown(runs)
        : comparisonLines(runs, outputWidth()).join('\n')
  printOut(`${text}\n`)
}

function comparisonDocument({ a, b, comparison }: ComparedRuns): object {
  const { rows, ...figures } = comparison
  return {
    a: a.name,
    b: b.name,
    ...figures,
    rows: rows.map(({ a: left, b: right, ...row }) => ({
      ...row,
      row_a: left.row,
      row_b: right.row,
    })),
  }
}
