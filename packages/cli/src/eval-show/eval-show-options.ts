import type { Command } from 'commander'

import { orWrongUse, wrongUse } from '../wrong-use.ts'

/** Flags of `osmosis eval runs`. */
export interface EvalRunsFlags {
  output?: string
  json?: boolean
}

/** Flags of `osmosis eval show`. */
export interface EvalShowFlags extends EvalRunsFlags {
  full?: boolean
  filter?: string
  failed?: boolean
  sort?: string
}

const outputFlag = [
  '-o, --output <folder>',
  'folder of the runs (default: .osmosis/evals in the workspace)',
] as const

/** Adds `eval runs` and `eval show` to `eval`. */
export function addEvalShowCommands(program: Command, setExitCode: (code: number) => void): void {
  const evals = program.commands.find((command) => command.name() === 'eval')
  evals
    ?.command('runs')
    .description('list the evaluation runs of this machine')
    .option(...outputFlag)
    .option('--json', 'print one JSON document')
    .exitOverride(wrongUse)
    .action(async (flags: EvalRunsFlags) => {
      const { evalRunsCommand } = await import('./eval-runs-command.ts')
      setExitCode(await orWrongUse(() => evalRunsCommand(flags)))
    })
  evals
    ?.command('show')
    .description('show the report of a run of this machine, its rollouts, or what was said in one')
    .argument(
      '[run]',
      'a run, as much of its name as is needed, <run>@baseline, <run>@<grading>, a folder, or latest (default)',
    )
    .argument('[rollout]', 'a row, counted from 0, or <row>.<attempt>, e.g. 12 or 12.0')
    .option('--failed', 'list the rollouts that did not pass')
    .option('--filter <query>', "list rollouts, e.g. 'is:stuck tool:search reward<0.5'")
    .option('--sort <key>', 'sort that list, e.g. tokens; -tokens for the largest first')
    .option('--full', 'fold nothing')
    .option(...outputFlag)
    .option('--json', 'print one JSON document, transcripts in ATIF')
    .exitOverride(wrongUse)
    .action(async (run: string | undefined, rollout: string | undefined, flags: EvalShowFlags) => {
      const { evalShowCommand } = await import('./eval-show-command.ts')
      setExitCode(await orWrongUse(() => evalShowCommand(run, rollout, flags)))
    })
}
