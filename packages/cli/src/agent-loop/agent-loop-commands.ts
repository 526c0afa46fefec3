import type { Command } from 'commander'

import { wholeNumber } from '../whole-number.ts'
import { decimalNumber } from './decimal-number.ts'
import type { TestFlags } from './test-flags.ts'
import type { ValidateFlags } from './validate-command.ts'

/** How an agent loop is named on the command line. */
export const agentLoopModule =
  'an agent loop: <file>:<export>, e.g. server.ts:agentLoop; without :<export> the only one there'

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

  program
    .command('test')
    .description('run an agent loop on rows of a dataset, with any model, on this machine')
    .requiredOption('-m, --module <module>', agentLoopModule)
    .requiredOption('-d, --dataset <file>', 'a dataset in JSON Lines')
    .option('--policy <module>', 'let a module that exports a policy answer the model calls')
    .option('--base-url <url>', 'let an OpenAI-compatible endpoint answer the model calls')
    .option('--model <name>', 'model to ask for at the endpoint')
    .option(
      '--api-key-env <name>',
      'environment variable with the key of the endpoint (default: no key is sent)',
    )
    .option('--limit <rows>', 'take so many rows', wholeNumber)
    .option('--offset <rows>', 'leave out so many rows first', wholeNumber, 0)
    .option('--max-turns <turns>', 'most answers of the policy per row', wholeNumber, 10)
    .option('--max-tokens <tokens>', 'most tokens of one answer', wholeNumber)
    .option('--temperature <number>', 'sampling temperature', decimalNumber)
    .option('-o, --output <file>', 'write the results there as JSON')
    .option('--log <folder>', 'keep a trace of every row there')
    .option('-q, --quiet', 'print the summary only')
    .option('-i, --interactive', 'choose a row and step through its model calls')
    .option('--row <index>', 'row to begin with (needs --interactive)', wholeNumber)
    .action(async (flags: TestFlags) => {
      const { testCommand } = await import('./test-command.ts')
      setExitCode(await testCommand(flags))
    })
}
