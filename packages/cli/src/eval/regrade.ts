import type { Command } from 'commander'

import type { GraderFlags } from './regrade/grader-surroundings.ts'

/** Flags of `osmosis eval regrade`. */
export interface EvalRegradeFlags extends GraderFlags {
  /** The name of the grading. */
  as?: string
  filter?: string
  watch?: boolean
  /** The grading whose rewards become those of the run; true for the one that is made. */
  adopt?: true | string
  breakLock?: boolean
  yes?: boolean
  json?: boolean
  output?: string
}

/** Flags of `osmosis eval note` and `osmosis eval notes`. */
export interface EvalNoteFlags {
  tag?: string
  json?: boolean
  output?: string
}

/** Adds `eval regrade`, `eval note` and `eval notes`. */
export function addEvalRegradeCommands(
  program: Command,
  setExitCode: (code: number) => void,
): void {
  const evals = program.commands.find((command) => command.name() === 'eval')
  if (evals === undefined) return
  withOutput(evals.command('regrade'))
    .description('grade the stored samples of a run again; nothing runs, and no policy is asked')
    .argument('<run>', 'a run, or its folder')
    .option(
      '--grader <file>',
      'a file with a class that extends Grader, or <file>:<export> of one or of an eval function (default: the grader of the run, as its file is now)',
    )
    .option('--as <name>', 'name of the grading (default: that of the file, with a number)')
    .option('--filter <query>', "only these rollouts, e.g. 'is:passed tool:search'")
    .option('--watch', 'grade again whenever the grader or what it imports is saved')
    .option(
      '--adopt [grading]',
      'make its rewards, or those of an earlier grading, the rewards of the run; those before stay as the grading "original"',
    )
    .option('--break-lock', 'with --adopt: take the run from a process that seems to write to it')
    .option(
      '--secrets-file <file>',
      'take the secrets of the run from a dotenv file, or - for stdin (default: the environment)',
    )
    .option('-y, --yes', 'ask nothing before a grading is replaced or adopted')
    .option('--json', 'print JSON for programs')
    .action(async (name: string, flags: EvalRegradeFlags) => {
      const { evalRegradeCommand } = await import('./regrade/regrade-run.ts')
      setExitCode(await evalRegradeCommand(name, flags))
    })
  withOutput(evals.command('note'))
    .description('note something about a rollout, as the viewer does; the last note of one counts')
    .argument('<run>', 'a run, <run>@baseline, or its folder')
    .argument('<rollout>', '<row>.<attempt>, the row from 0 and the attempt from 1, e.g. 12.1')
    .argument('[text]', 'what there is to say; without text and tag, the note is removed')
    .option('--tag <tag>', 'a short word by which rollouts are found, e.g. loop for tag:loop')
    .action(
      async (name: string, rollout: string, text: string | undefined, flags: EvalNoteFlags) => {
        const { evalNoteCommand } = await import('./regrade/run-notes.ts')
        setExitCode(await evalNoteCommand(name, { rollout, text }, flags))
      },
    )
  withOutput(evals.command('notes'))
    .description('list the notes of a run')
    .argument('<run>', 'a run, <run>@baseline, or its folder')
    .option('--tag <tag>', 'only those with this tag')
    .option('--json', 'print JSON for programs')
    .action(async (name: string, flags: EvalNoteFlags) => {
      const { evalNotesCommand } = await import('./regrade/run-notes.ts')
      setExitCode(await evalNotesCommand(name, flags))
    })
}

function withOutput(command: Command): Command {
  return command.option(
    '-o, --output <folder>',
    'folder of the runs (default: .osmosis/evals in the workspace)',
  )
}
