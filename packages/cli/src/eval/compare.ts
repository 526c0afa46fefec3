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
      'a run, named as for eval show; <run>@<grading>, too (default, without both: the last two runs with a row at which both ended)',
    )
    .argument('[after]', 'another one')
    .addOption(
      new Option('--metric <metric>', 'what is compared')
        .choices(['pass', 'reward'] as const)
        .default('pass' as const),
    )
    .option('--by <key>', 'compare by the values of a metadata key as well, e.g. task')
    .optionsGroup(groups.output)
    .option(
      '--fail-if-worse [points]',
      'end with 3 when it is worse by more than this many points (of the reward with --metric reward), with 95 % confidence (default: 0)',
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
