import type { Command } from 'commander'

import { countFrom, addPolicyOptions, type PolicyFlags } from '../command/flags.ts'
import { addInitCommand } from './init.ts'
import { addValidateCommand } from './validate.ts'

/** Flags of `osmosis rollout send`. */
export interface SendFlags extends PolicyFlags {
  dataset?: string
  /** An eval config in place of a dataset. */
  config?: string
  secretsFile?: string
  policyHost: string
  serverApiKeyEnv?: string
  serverLog?: string
  json?: boolean
}

/** Adds `rollout init`, `rollout send` and `rollout validate`. */
export function addRolloutCommands(program: Command, setExitCode: (code: number) => void): void {
  const rollouts = program.command('rollout').description('add rollouts, and run single ones')
  addInitCommand(rollouts, setExitCode)
  addValidateCommand(rollouts, setExitCode)
  addPolicyOptions(rollouts.command('send'))
    .description('send one row of a dataset to a workflow, and watch what becomes of it')
    .argument('<target>', 'an entrypoint, <file>[:<export>], or the URL of a rollout server')
    .argument('[row]', 'the row, counted from 0', countFrom(0), 0)
    .option('-d, --dataset <file>', 'the dataset with the row')
    .option('-c, --config <file>', 'an eval config, for its dataset, environment and time limits')
    .option(
      '--secrets-file <file>',
      'take the secrets of the config from a dotenv file, or - for stdin (default: the environment)',
    )
    .option(
      '--policy-host <address>',
      'address of this machine at which a rollout server elsewhere reaches the policy',
      '127.0.0.1',
    )
    .option(
      '--server-api-key-env <name>',
      'environment variable with the key of the rollout server (default: no key is sent)',
    )
    .option('--server-log <file>', 'keep what the process of the entrypoint prints there')
    .option('--json', 'print the result as one JSON object instead of the conversation')
    .action(async (target: string, row: number, flags: SendFlags) => {
      const { sendCommand } = await import('./send/send-row.ts')
      setExitCode(await sendCommand(target, row, flags))
    })
}
