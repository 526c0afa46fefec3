import type { Command } from '@commander-js/extra-typings'

import { example, groups, runsFolder, type FlagsOf } from '../command/flags.ts'

/** Adds `eval show`. */
export function declareShow(evals: Command) {
  return evals
    .command('show')
    .optionsGroup(groups.inputs)
    .option(...runsFolder)
    .description(
      'show the result of a run or training of this machine, its rollouts, or one conversation',
    )
    .argument(
      '[run]',
      'a run, the beginning of its name, <run>@<grading>, a folder, or latest (default); or a training, <training>/<run> for one of its steps',
    )
    .argument(
      '[rollout]',
      'a row, counted from 0, or <row>.<attempt>, the attempt from 1, e.g. 12.1',
    )
    .option('--failed', 'list the rollouts that did not pass')
    .option('--filter <query>', "list rollouts, e.g. 'is:stuck tool:search reward<0.5'")
    .option('--sort <key>', 'sort that list, e.g. tokens; -tokens for the largest first')
    .optionsGroup(groups.output)
    .option('--details', 'show every figure, failure and finding')
    .option('--full', 'do not truncate')
    .option('--json', 'print one JSON document, transcripts in ATIF')
    .addHelpText('after', example('osmosis eval show latest 12.1'))
}

/** Flags of `osmosis eval show`. */
export type EvalShowFlags = FlagsOf<typeof declareShow>
