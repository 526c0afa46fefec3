import type { Command } from 'commander'

/** Flags of `osmosis eval export`. */
export interface EvalExportFlags {
  /** A folder. */
  atif?: string
  /** A file, or - for stdout. */
  csv?: string
  /** A file, or - for stdout. */
  sft?: string
  filter?: string
  grading?: string
  force?: boolean
  output?: string
}

/** Adds `eval export`. */
export function addEvalExportCommand(program: Command, setExitCode: (code: number) => void): void {
  const evals = program.commands.find((command) => command.name() === 'eval')
  evals
    ?.command('export')
    .description('write what a run holds in forms of other programs')
    .argument('<run>', 'a run, <run>@baseline, <run>@<grading>, or its folder')
    .option('--atif <folder>', 'a trajectory document (ATIF) for each sample')
    .option('--csv <file>', 'a table with a line for each rollout; - for stdout')
    .option(
      '--sft <file>',
      'the conversations as they were sent to the policy, as JSON Lines of { messages, tools }; - for stdout',
    )
    .option(
      '--filter <query>',
      "only these rollouts, e.g. 'is:passed -is:unearned' (default: all, of --sft is:passed)",
    )
    .option('--grading <name>', 'with the rewards of this re-grading')
    .option('--force', 'replace files that are there')
    .option(
      '-o, --output <folder>',
      'folder of the runs (default: .osmosis/evals in the workspace)',
    )
    .action(async (name: string, flags: EvalExportFlags) => {
      const { evalExportCommand } = await import('./export/export-run.ts')
      setExitCode(await evalExportCommand(name, flags))
    })
}
