import type { Command } from '@commander-js/extra-typings'

import { agentLoopModule, example, groups, type FlagsOf } from '../command/flags.ts'
import { printOut } from '../command/surroundings.ts'

function declareValidate(program: Command) {
  return program
    .command('validate')
    .description('check an agent loop as the server does; rollout validate runs it as well')
    .optionsGroup(groups.inputs)
    .requiredOption('-m, --module <module>', agentLoopModule)
    .addHelpText('after', example('osmosis validate -m server.ts:agentLoop'))
}

/** Adds `validate`. */
export function addValidateLoopCommand(program: Command): void {
  declareValidate(program).action(validateLoop)
}

/** Checks an agent loop and prints how many tools it has. Rejects when it cannot serve rollouts. */
async function validateLoop({ module }: FlagsOf<typeof declareValidate>): Promise<void> {
  const { checkAgentLoop, loadAgentLoop } = await import('../inputs/load-entrypoint.ts')
  const { loop } = await loadAgentLoop(module)
  const { toolCount, warnings } = await checkAgentLoop(loop)
  printOut(
    `Agent loop '${loop.name}' validated successfully.\n` +
      `  - Tools: ${toolCount}\n` +
      (warnings.length === 0 ? '' : `  - Warnings: ${warnings.length}\n`),
  )
}
