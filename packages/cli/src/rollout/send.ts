import type { Command } from '@commander-js/extra-typings'

import {
  addPolicyFlags,
  countFrom,
  example,
  groups,
  type FlagsOf,
  type SetExitCode,
} from '../command/flags.ts'

function declareSend(rollouts: Command) {
  return addPolicyFlags(rollouts.command('send'))
    .description('send one row of a dataset to a workflow, and show the conversation')
    .argument('<target>', 'an entrypoint, <file>[:<export>], or the URL of a rollout server')
    .argument('[row]', 'the row, counted from 0', countFrom(0), 0)
    .optionsGroup(groups.inputs)
    .option('-d, --dataset <file>', 'the dataset with the row')
    .option('-c, --config <file>', 'an eval config, for its dataset, environment and time limits')
    .option(
      '--secrets-file <file>',
      'read the secrets of the config from a dotenv file, or - for stdin (default: the environment)',
    )
    .optionsGroup(groups.server)
    .option(
      '--policy-host <address>',
      'address of this machine at which a rollout server elsewhere reaches the policy',
      '127.0.0.1',
    )
    .option(
      '--server-api-key-env <name>',
      'environment variable with the key of the rollout server (default: no key is sent)',
    )
    .optionsGroup(groups.output)
    .option('--server-log <file>', 'write the output of the entrypoint to this file')
    .option('--json', 'print the result as one JSON object instead of the conversation')
    .addHelpText(
      'after',
      example('osmosis rollout send rollouts/price-check/main.ts 3 -d data/prices.jsonl'),
    )
}

/** Flags of `osmosis rollout send`. */
export type SendFlags = FlagsOf<typeof declareSend>

/** Adds `rollout send`. */
export function addSendCommand(rollouts: Command, setExitCode: SetExitCode): void {
  declareSend(rollouts).action(async (target, row, flags) => {
    const { sendCommand } = await import('./send/send-row.ts')
    setExitCode(await sendCommand(target, row, flags))
  })
}
