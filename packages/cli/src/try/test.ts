import type { Command } from '@commander-js/extra-typings'

import {
  addPolicyFlags,
  countFrom,
  decimalNumber,
  example,
  groups,
  type FlagsOf,
} from '../command/flags.ts'

/** Adds `test`. */
export function declareTest(program: Command) {
  return addPolicyFlags(program.command('test'))
    .description(
      'run a workflow or an agent loop on rows of a dataset on this machine, with any model',
    )
    .optionsGroup(groups.inputs)
    .requiredOption('-m, --module <module>', 'a workflow, or an agent loop: <file>[:<export>]')
    .requiredOption('-d, --dataset <file>', 'the dataset with the rows')
    .option('--limit <rows>', 'maximum number of rows', countFrom(1))
    .option('--offset <rows>', 'skip the first N rows', countFrom(0), 0)
    .optionsGroup(groups.limits)
    .option(
      '--max-turns <turns>',
      'maximum number of model answers in a run of an agent loop (default: 10)',
      countFrom(1),
    )
    .option(
      '--max-tokens <tokens>',
      'maximum number of tokens in one answer of an agent loop',
      countFrom(1),
    )
    .option('--temperature <number>', 'sampling temperature of an agent loop', decimalNumber)
    .optionsGroup(groups.output)
    .option('-o, --output <file>', 'write the results to this file as JSON')
    .option('--log <folder>', 'write a trace of every run of an agent loop to this folder')
    .option('-q, --quiet', 'print the summary only')
    .optionsGroup(groups.run)
    .option(
      '-i, --interactive',
      'choose a row and step through the model calls of an agent loop in the terminal',
    )
    .option('--row <index>', 'first row (needs --interactive)', countFrom(0))
    .addHelpText('after', example('osmosis test -m server.ts:agentLoop -d data.jsonl --limit 3'))
}

/** Flags of `osmosis test`. */
export type TestFlags = FlagsOf<typeof declareTest>
