import type { Command } from '@commander-js/extra-typings'

import { example, groups, runsFolder, type FlagsOf } from '../command/flags.ts'

/** Adds `eval regrade`. */
export function declareRegrade(evals: Command) {
  return evals
    .command('regrade')
    .optionsGroup(groups.inputs)
    .option(...runsFolder)
    .description(
      'grade the stored samples of a run again, without running rollouts or calling a model',
    )
    .argument('<run>', 'a run, or its folder')
    .optionsGroup(groups.inputs)
    .option(
      '--grader <file>',
      'a file with a class that extends Grader, or <file>:<export> of one or of an eval function (default: the grader of the run, as its file is now)',
    )
    .optionsGroup(groups.run)
    .option('--as <name>', 'name of the grading (default: that of the file, with a number)')
    .optionsGroup(groups.inputs)
    .option('--filter <query>', "only these rollouts, e.g. 'is:passed tool:search'")
    .optionsGroup(groups.run)
    .optionsGroup(groups.inputs)
    .option(
      '--secrets-file <file>',
      'read the secrets of the run from a dotenv file, or - for stdin (default: the environment)',
    )
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation before a grading is replaced')
    .optionsGroup(groups.output)
    .option('--json', 'print JSON')
    .addHelpText('after', example('osmosis eval regrade latest --grader graders/strict.ts'))
}

/** Flags of `osmosis eval regrade`. */
export type EvalRegradeFlags = FlagsOf<typeof declareRegrade>
