import type { Command } from 'commander'

import { countFrom, decimalNumber, addPolicyOptions, type PolicyFlags } from '../command/flags.ts'

const agentLoopModule =
  'an agent loop: <file>:<export>, e.g. server.ts:agentLoop; without :<export> the only one there'

/** Flags of `osmosis validate`. */
export interface ValidateFlags {
  module: string
}

/** Flags of `osmosis test`. */
export interface TestFlags extends PolicyFlags {
  module: string
  dataset: string
  limit?: number
  offset: number
  maxTurns: number
  maxTokens?: number
  temperature?: number
  output?: string
  log?: string
  quiet?: boolean
  interactive?: boolean
  row?: number
}

/** Adds `validate` and `test`. */
export function addAgentLoopCommands(program: Command, setExitCode: (code: number) => void): void {
  program
    .command('validate')
    .description('check an agent loop as the server does; rollout validate runs it as well')
    .requiredOption('-m, --module <module>', agentLoopModule)
    .action(async (flags: ValidateFlags) => {
      const { validateCommand } = await import('./check-agent-loop.ts')
      await validateCommand(flags)
    })

  addPolicyOptions(program.command('test'))
    .description('run an agent loop on rows of a dataset, with any model, on this machine')
    .requiredOption('-m, --module <module>', agentLoopModule)
    .requiredOption('-d, --dataset <file>', 'the dataset with the rows')
    .option('--limit <rows>', 'take so many rows', countFrom(1))
    .option('--offset <rows>', 'leave out so many rows first', countFrom(0), 0)
    .option('--max-turns <turns>', 'most answers of the policy per run', countFrom(1), 10)
    .option('--max-tokens <tokens>', 'most tokens of one answer', countFrom(1))
    .option('--temperature <number>', 'sampling temperature', decimalNumber)
    .option('-o, --output <file>', 'write the results there as JSON')
    .option('--log <folder>', 'keep a trace of every run there')
    .option('-q, --quiet', 'print the summary only')
    .option('-i, --interactive', 'choose a row and step through its model calls')
    .option('--row <index>', 'row to begin with (needs --interactive)', countFrom(0))
    .action(async (flags: TestFlags) => {
      const { testCommand } = await import('./test-agent-loop.ts')
      setExitCode(await testCommand(flags))
    })
}
