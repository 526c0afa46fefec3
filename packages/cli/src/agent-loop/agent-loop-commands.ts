import type { Command } from 'commander'

import { countFrom } from '../flag-values.ts'
import { addLoopOptions, agentLoopModule } from './loop-options.ts'

import type { TestFlags } from './test-flags.ts'
import type { ValidateFlags } from './validate-command.ts'

/** Adds `validate` and `test`. */
export function addAgentLoopCommands(program: Command, setExitCode: (code: number) => void): void {
  program
    .command('validate')
    .description('check an agent loop as the server does')
    .requiredOption('-m, --module <module>', agentLoopModule)
    .action(async (flags: ValidateFlags) => {
      const { validateCommand } = await import('./validate-command.ts')
      await validateCommand(flags)
    })

  addLoopOptions(program.command('test'))
    .description('run an agent loop on rows of a dataset, with any model, on this machine')
    .option('-i, --interactive', 'choose a row and step through its model calls')
    .option('--row <index>', 'row to begin with (needs --interactive)', countFrom(0))
    .action(async (flags: TestFlags) => {
      const { testCommand } = await import('./test-command.ts')
      setExitCode(await testCommand(flags))
    })
}
