import type { Command } from '@commander-js/extra-typings'

import {
  addPolicyFlags,
  countFrom,
  decimalNumber,
  example,
  groups,
  type FlagsOf,
  type SetExitCode,
} from '../command/flags.ts'

const agentLoopModule =
  'an agent loop: <file>:<export>, e.g. server.ts:agentLoop; without :<export> the only one there'

function declareValidate(program: Command) {
  return program
    .command('validate')
    .description('check an agent loop as the server does; rollout validate runs it as well')
    .optionsGroup(groups.inputs)
    .requiredOption('-m, --module <module>', agentLoopModule)
    .addHelpText('after', example('osmosis validate -m server.ts:agentLoop'))
}

/** Flags of `osmosis validate`. */
export type ValidateFlags = FlagsOf<typeof declareValidate>

function declareTest(program: Command) {
  return addPolicyFlags(program.command('test'))
    .description('run an agent loop on rows of a dataset on this machine, with any model')
    .optionsGroup(groups.inputs)
    .requiredOption('-m, --module <module>', agentLoopModule)
    .requiredOption('-d, --dataset <file>', 'the dataset with the rows')
    .option('--limit <rows>', 'maximum number of rows', countFrom(1))
    .option('--offset <rows>', 'skip the first N rows', countFrom(0), 0)
    .optionsGroup(groups.limits)
    .option('--max-turns <turns>', 'maximum number of model answers in a run', countFrom(1), 10)
    .option('--max-tokens <tokens>', 'maximum number of tokens in one answer', countFrom(1))
    .option('--temperature <number>', 'sampling temperature', decimalNumber)
    .optionsGroup(groups.output)
    .option('-o, --output <file>', 'write the results to this file as JSON')
    .option('--log <folder>', 'write a trace of every run to this folder')
    .option('-q, --quiet', 'print the summary only')
    .optionsGroup(groups.run)
    .option('-i, --interactive', 'choose a row and step through its model calls in the terminal')
    .option('--row <index>', 'first row (needs --interactive)', countFrom(0))
    .addHelpText('after', example('osmosis test -m server.ts:agentLoop -d data.jsonl --limit 3'))
}

/** Flags of `osmosis test`. */
export type TestFlags = FlagsOf<typeof declareTest>

/** Adds `validate` and `test`. */
export function addAgentLoopCommands(program: Command, setExitCode: SetExitCode): void {
  declareValidate(program).action(async (flags) => {
    const { validateCommand } = await import('./check-agent-loop.ts')
    await validateCommand(flags)
  })
  declareTest(program).action(async (flags) => {
    const { testCommand } = await import('./test-agent-loop.ts')
    setExitCode(await testCommand(flags))
  })
}
