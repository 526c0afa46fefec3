import { type Command, Option } from 'commander'

import { portNumber } from '../command/flags.ts'

/** Flags of `osmosis eval view`. */
export interface EvalViewFlags {
  port?: number
  open: boolean
  /** The file of a report. */
  export?: string
  transcripts: 'flagged' | 'all' | 'none'
  output?: string
}

/** Adds `eval view`. */
export function addEvalViewCommand(program: Command, setExitCode: (code: number) => void): void {
  const evals = program.commands.find((command) => command.name() === 'eval')
  evals
    ?.command('view')
    .description('read evaluation runs of this machine in a browser')
    .argument(
      '[run]',
      'a run, the beginning of its name, its folder, or latest; with @baseline or @<grading> (default: the one that is running, or the list)',
    )
    .option('--port <port>', 'port on 127.0.0.1 (default: one that is free)', portNumber)
    .option('--no-open', 'print the link, and open no browser')
    .option('--export <file>', 'write the run as one HTML file instead, e.g. report.html')
    .addOption(
      new Option('--transcripts <which>', 'transcripts in that file')
        .choices(['flagged', 'all', 'none'])
        .default('flagged'),
    )
    .option(
      '-o, --output <folder>',
      'folder of the runs (default: .osmosis/evals in the workspace)',
    )
    .action(async (run: string | undefined, flags: EvalViewFlags) => {
      const { evalViewCommand } = await import('./open-viewer.ts')
      setExitCode(await evalViewCommand(run, flags))
    })
}
