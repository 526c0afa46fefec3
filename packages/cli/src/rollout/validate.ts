import type { Command } from '@commander-js/extra-typings'

import {
  addPolicyFlags,
  countFrom,
  example,
  groups,
  type FlagsOf,
  type SetExitCode,
} from '../command/flags.ts'

function declareValidate(rollouts: Command) {
  return addPolicyFlags(
    rollouts.command('validate'),
    'default_policy of osmosis.toml when that is a module, else one that calls the first tool',
  )
    .description('run one rollout and report what would fail in training')
    .argument('[name]', 'a folder in rollouts/ (default: all of them)')
    .optionsGroup(groups.inputs)
    .option('-m, --module <module>', 'an entrypoint instead of a name: <file>[:<export>]')
    .option(
      '-d, --dataset <file>',
      'the dataset with the row, with --module; without it no rollout is run',
    )
    .option('--row <index>', 'the row that is run, counted from 0', countFrom(0), 0)
    .option(
      '--secrets-file <file>',
      'read the secrets of the config from a dotenv file, or - for stdin (default: the environment)',
    )
    .optionsGroup(groups.output)
    .option('--json', 'print one JSON object')
    .addHelpText('after', example('osmosis rollout validate price-check'))
}

/** Flags of `osmosis rollout validate`. */
export type ValidateRolloutFlags = FlagsOf<typeof declareValidate>

/** Adds `rollout validate`. */
export function addValidateCommand(rollouts: Command, setExitCode: SetExitCode): void {
  declareValidate(rollouts).action(async (name, flags) => {
    const { validateRolloutsCommand } = await import('./validate/validate-rollouts.ts')
    setExitCode(await validateRolloutsCommand(name, flags))
  })
}
