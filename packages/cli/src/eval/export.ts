import type { Command } from '@commander-js/extra-typings'

import { example, groups, runsFolder, type FlagsOf } from '../command/flags.ts'

/** Adds `eval export`. */
export function declareExport(evals: Command) {
  return evals
    .command('export')
    .description('export the rollouts of a run in other formats')
    .argument('<run>', 'a run, <run>@<grading>, or its folder')
    .optionsGroup(groups.output)
    .option('--atif <folder>', 'a trajectory document (ATIF) for each sample')
    .option('--csv <file>', 'a table with a line for each rollout; - for stdout')
    .option(
      '--sft <file>',
      'the conversations as the policy got them, as JSON Lines of { messages, tools }; - for stdout. A rewritten conversation gives one line for each of its parts, and weight: 0 marks messages that are not training data',
    )
    .option(
      '--junit <file>',
      'test results as JUnit XML for CI services: a test case for each row, which passes when all of its attempts do; - for stdout',
    )
    .option(
      '--rows <file>',
      'the rows of these rollouts as JSON Lines, unchanged and in the order of the dataset; - for stdout. With --filter is:signal these are the rows that a training learns from',
    )
    .optionsGroup(groups.inputs)
    .option(
      '-d, --dataset <file>',
      'the dataset of the run, for --rows (default: where the run found it)',
    )
    .option(
      '--filter <query>',
      "only these rollouts, e.g. 'is:passed -is:suspicious', which leaves out what may be reward hacking (default: all; for --sft is:passed)",
    )
    .option('--grading <name>', 'use the rewards of this re-grading')
    .optionsGroup(groups.output)
    .option('--force', 'replace existing files')
    .optionsGroup(groups.inputs)
    .option(...runsFolder)
    .addHelpText(
      'after',
      example('osmosis eval export latest --sft passed.jsonl --filter is:passed'),
    )
}

/** Flags of `osmosis eval export`. */
export type EvalExportFlags = FlagsOf<typeof declareExport>
