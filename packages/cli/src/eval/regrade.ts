import type { Command } from '@commander-js/extra-typings'

import { example, groups, type FlagsOf, type SetExitCode } from '../command/flags.ts'

const runsFolder = [
  '-o, --output <folder>',
  'folder of the runs (default: .osmosis/evals in the workspace)',
] as const

function declareRegrade(evals: Command) {
  return evals
    .command('regrade')
    .optionsGroup(groups.inputs)
    .option(...runsFolder)
    .description(
      'grade the stored samples of a run again, without running rollouts or calling a model',
    )
    .argument('<run>', 'a run, or its folder')
    .optionsGroup(groups.inputs)
    .option(
      '--grader <file>',
      'a file with a class that extends Grader, or <file>:<export> of one or of an eval function (default: the grader of the run, as its file is now)',
    )
    .optionsGroup(groups.run)
    .option('--as <name>', 'name of the grading (default: that of the file, with a number)')
    .optionsGroup(groups.inputs)
    .option('--filter <query>', "only these rollouts, e.g. 'is:passed tool:search'")
    .optionsGroup(groups.run)
    .option('--watch', 'grade again whenever the grader or what it imports is saved')
    .option(
      '--adopt [grading]',
      'use its rewards, or those of an earlier grading, as the rewards of the run; the previous rewards remain as the grading "original"',
    )
    .option(
      '--break-lock',
      'with --adopt: take over the run although another process seems to write to it',
    )
    .optionsGroup(groups.inputs)
    .option(
      '--secrets-file <file>',
      'read the secrets of the run from a dotenv file, or - for stdin (default: the environment)',
    )
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation before a grading is replaced or adopted')
    .optionsGroup(groups.output)
    .option('--json', 'print JSON')
    .addHelpText('after', example('osmosis eval regrade latest --grader graders/strict.ts'))
}

/** Flags of `osmosis eval regrade`. */
export type EvalRegradeFlags = FlagsOf<typeof declareRegrade>

function declareNote(evals: Command) {
  return evals
    .command('note')
    .optionsGroup(groups.inputs)
    .option(...runsFolder)
    .description('add a note to a rollout, as in the viewer; it replaces the previous note')
    .argument('<run>', 'a run, <run>@baseline, or its folder')
    .argument('<rollout>', '<row>.<attempt>, the row from 0 and the attempt from 1, e.g. 12.1')
    .argument('[text]', 'the text of the note; without text and tag, the note is removed')
    .option('--tag <tag>', 'a short word to filter rollouts by, e.g. loop for tag:loop')
    .addHelpText(
      'after',
      example("osmosis eval note latest 12.1 'calls the tool twice' --tag loop"),
    )
}

/** Flags of `osmosis eval note`. */
export type EvalNoteFlags = FlagsOf<typeof declareNote>

function declareNotes(evals: Command) {
  return evals
    .command('notes')
    .optionsGroup(groups.inputs)
    .option(...runsFolder)
    .description('list the notes of a run')
    .argument('<run>', 'a run, <run>@baseline, or its folder')
    .option('--tag <tag>', 'only those with this tag')
    .optionsGroup(groups.output)
    .option('--json', 'print JSON')
    .addHelpText('after', example('osmosis eval notes latest --tag loop'))
}

/** Flags of `osmosis eval notes`. */
export type EvalNotesFlags = FlagsOf<typeof declareNotes>

/** Adds `eval regrade`, `eval note` and `eval notes`. */
export function addEvalRegradeCommands(evals: Command, setExitCode: SetExitCode): void {
  declareRegrade(evals).action(async (name, flags) => {
    const { evalRegradeCommand } = await import('./regrade/regrade-run.ts')
    setExitCode(await evalRegradeCommand(name, flags))
  })
  declareNote(evals).action(async (name, rollout, text, flags) => {
    const { evalNoteCommand } = await import('./regrade/run-notes.ts')
    setExitCode(await evalNoteCommand(name, { rollout, text }, flags))
  })
  declareNotes(evals).action(async (name, flags) => {
    const { evalNotesCommand } = await import('./regrade/run-notes.ts')
    setExitCode(await evalNotesCommand(name, flags))
  })
}
