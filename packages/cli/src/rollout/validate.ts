import type { Command } from 'commander'

import { countFrom, addPolicyOptions, type PolicyFlags } from '../command/flags.ts'

/** Flags of `osmosis rollout validate`. */
export interface ValidateRolloutFlags extends PolicyFlags {
  /** An entrypoint, `<file>[:<export>]`, in place of a name. */
  module?: string
  /** The dataset of that. */
  dataset?: string
  row: number
  secretsFile?: string
  json?: boolean
}

/** Adds `rollout validate`. */
export function addValidateCommand(rollouts: Command, setExitCode: (code: number) => void): void {
  addPolicyOptions(
    rollouts.command('validate'),
    'default_policy of osmosis.toml when that is a module, else one that calls the first tool',
  )
    .description('run one rollout and name what training would stumble over')
    .argument('[name]', 'a folder in rollouts/ (default: all of them)')
    .option('-m, --module <module>', 'an entrypoint in place of a name: <file>[:<export>]')
    .option(
      '-d, --dataset <file>',
      'the dataset with the row, with --module; without it no rollout is run',
    )
    .option('--row <index>', 'the row that is run, counted from 0', countFrom(0), 0)
    .option(
      '--secrets-file <file>',
      'take the secrets of the config from a dotenv file, or - for stdin (default: the environment)',
    )
    .option('--json', 'print one JSON object')
    .action(async (name: string | undefined, flags: ValidateRolloutFlags) => {
      const { validateRolloutsCommand } = await import('./validate/validate-rollouts.ts')
      setExitCode(await validateRolloutsCommand(name, flags))
    })
}
