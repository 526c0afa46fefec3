import type { Command } from '@commander-js/extra-typings'

import { example, groups, runsFolder, type FlagsOf } from '../command/flags.ts'

/** Adds `eval runs`. */
export function declareRuns(evals: Command) {
  return evals
    .command('runs')
    .optionsGroup(groups.inputs)
    .option(...runsFolder)
    .description('list the evaluation runs and the trainings of this machine')
    .optionsGroup(groups.output)
    .option('--json', 'print one JSON document')
    .addHelpText('after', example('osmosis eval runs'))
}

/** Flags of `osmosis eval runs`. */
export type EvalRunsFlags = FlagsOf<typeof declareRuns>
