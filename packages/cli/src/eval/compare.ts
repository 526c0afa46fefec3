import { type Command, InvalidArgumentError, Option } from '@commander-js/extra-typings'

import { example, groups, runsFolder, type FlagsOf } from '../command/flags.ts'

/** Adds `eval compare`. */
export function declareCompare(evals: Command) {
  return evals
    .command('compare')
    .optionsGroup(groups.inputs)
    .option(...runsFolder)
    .description('compare two runs of this machine over the rows that both have')
    .argument(
      '[before]',
      'a run as eval show takes it, or <run>@<grading> (default, if you name neither: the last two runs that have ended rollouts of the same row)',
    )
    .argument('[after]', 'the run to compare it with')
    .addOption(
      new Option('--metric <metric>', 'what is compared')
        .choices(['pass', 'reward'] as const)
        .default('pass' as const),
    )
    .option('--by <key>', 'compare by the values of a metadata key as well, e.g. task')
    .optionsGroup(groups.output)
    .option(
      '--fail-if-worse [points]',
      'exit with code 3 when the second run is worse by more than this many points, with 95 % confidence; with --metric reward, by more than this much reward (default: 0)',
      allowedLoss,
    )
    .option('--markdown', 'print Markdown, e.g. for a pull request')
    .option('--json', 'print one JSON document')
    .addHelpText('after', example('osmosis eval compare before after --by task'))
}

/** Flags of `osmosis eval compare`. */
export type EvalCompareFlags = FlagsOf<typeof declareCompare>

function allowedLoss(value: string): number {
  const loss = Number(value)
  if (value.trim() !== '' && loss >= 0 && loss < Infinity) return loss
  throw new InvalidArgumentError(
    'It must be a number, 0 or more: write --fail-if-worse=2, or the flag behind the runs.',
  )
}
