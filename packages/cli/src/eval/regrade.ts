import type { Command } from '@commander-js/extra-typings'

import { example, groups, runsFolder, type FlagsOf, type SetExitCode } from '../command/flags.ts'

function declareRegrade(evals: Command) {
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
    .option('--watch', 'grade again whenever the grader or what it imports is saved')
    .option(
      '--adopt [grading]',
      'use its rewards, or those of an earlier grading, as the rewards of the run; the previous rewards remain as the grading "original"',
    )
    .option(
      '--break-lock',
      'with --adopt: take over the run although another process seems to write to it',
    )
    .optionsGroup(groups.inputs)
    .option(
      '--secrets-file <file>',
      'read the secrets of the run from a dotenv file, or - for stdin (default: the environment)',
    )
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation before a grading is replaced or adopted')
    .optionsGroup(groups.output)
    .option('--json', 'print JSON')
    .addHelpText('after', example('osmosis eval regrade latest --grader graders/strict.ts'))
}

/** Flags of `osmosis eval regrade`. */
export type EvalRegradeFlags = FlagsOf<typeof declareRegrade>

/** Adds `eval regrade`. */
export function addEvalRegradeCommand(evals: Command, setExitCode: SetExitCode): void {
  declareRegrade(evals).action(async (name, flags) => {
    const { evalRegradeCommand } = await import('./regrade/regrade-run.ts')
    setExitCode(await evalRegradeCommand(name, flags))
  })
}
