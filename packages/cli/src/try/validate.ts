import type { Command } from '@commander-js/extra-typings'

import { addPolicyFlags, countFrom, example, groups, type FlagsOf } from '../command/flags.ts'

/** Adds `validate`. */
export function declareValidate(program: Command) {
  return addPolicyFlags(
    program.command('validate'),
    'default_policy of osmosis.toml when that is a module, else its own, which calls the first tool',
  )
    .description(
      'check a workflow or an agent loop: run one row and report what would fail in training',
    )
    .argument('[name]', 'a folder in rollouts/ (default: all of them)')
    .optionsGroup(groups.inputs)
    .option('-m, --module <module>', 'an entrypoint instead of a name: <file>[:<export>]')
    .option(
      '-d, --dataset <file>',
      'the dataset with the row, for --module; without a dataset no rollout is run',
    )
    .option('--row <index>', 'the row that is run, counted from 0', countFrom(0), 0)
    .option(
      '--secrets-file <file>',
      'read the secrets of the config from a dotenv file, or - for stdin (default: the environment)',
    )
    .optionsGroup(groups.output)
    .option('--json', 'print one JSON object')
    .addHelpText('after', example('osmosis validate price-check'))
}

/** Flags of `osmosis validate`. */
export type ValidateFlags = FlagsOf<typeof declareValidate>
