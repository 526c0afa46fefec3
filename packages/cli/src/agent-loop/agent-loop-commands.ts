import type { Command } from 'commander'

import type { EvalLoopFlags } from './eval-loop/eval-loop-flags.ts'
import { endpointUrl } from './endpoint-url.ts'
import { addLoopOptions, agentLoopModule } from './loop-options.ts'
import { countFrom, decimalNumber } from './number-flags.ts'
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

/** Adds `loop` to the `eval` commands. */
export function addEvalLoopCommand(evals: Command, setExitCode: (code: number) => void): void {
  addLoopOptions(evals.command('loop'))
    .description('score an agent loop on rows of a dataset, with any model, on this machine')
    .option(
      '--eval-fn <function>',
      'score runs by <file>:<export>, e.g. rewards.ts:exact; may be repeated (default: the reward that the loop gives)',
      (spec: string, specs: readonly string[] | undefined) => [...(specs ?? []), spec],
    )
    .option('--n <runs>', 'runs of each row', countFrom(1), 1)
    .option('--batch-size <runs>', 'most runs at the same time', countFrom(1), 1)
    .option('--pass-threshold <score>', 'least score of a run that passes', decimalNumber, 1)
    .option('--baseline-policy <module>', 'compare with a module that exports a policy')
    .option('--baseline-model <name>', 'compare with this model of an endpoint')
    .option(
      '--baseline-base-url <url>',
      'endpoint of the baseline model (default: --base-url, with its key)',
      endpointUrl,
    )
    .option(
      '--baseline-api-key-env <name>',
      'environment variable with the key of the baseline endpoint',
    )
    .action(async (flags: EvalLoopFlags) => {
      const { evalLoopCommand } = await import('./eval-loop/eval-loop-command.ts')
      setExitCode(await evalLoopCommand(flags))
    })
}
