import type { Command } from 'commander'

import { countFrom, decimalNumber } from '../flag-values.ts'
import { addPolicyOptions } from '../policy-options.ts'

/** How an agent loop is named on the command line. */
export const agentLoopModule =
  'an agent loop: <file>:<export>, e.g. server.ts:agentLoop; without :<export> the only one there'

/** Adds the flags that say which loop runs on which rows, and who answers it: `LoopFlags`. */
export function addLoopOptions(command: Command): Command {
  return addPolicyOptions(command)
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
}
