import type { Command } from '@commander-js/extra-typings'

import { agentLoopModule, example, groups, type FlagsOf } from '../command/flags.ts'

function declareValidate(program: Command) {
  return program
    .command('validate')
    .description('check an agent loop as the server does; rollout validate runs it as well')
    .optionsGroup(groups.inputs)
    .requiredOption('-m, --module <module>', agentLoopModule)
    .addHelpText('after', example('osmosis validate -m server.ts:agentLoop'))
}

/** Flags of `osmosis validate`. */
export type ValidateLoopFlags = FlagsOf<typeof declareValidate>

/** Adds `validate`. */
export function addValidateLoopCommand(program: Command): void {
  declareValidate(program).action(async (flags) => {
    const { validateCommand } = await import('./check-agent-loop.ts')
    await validateCommand(flags)
  })
}
