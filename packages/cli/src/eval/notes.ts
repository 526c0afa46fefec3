import type { Command } from '@commander-js/extra-typings'

import { example, groups, runsFolder, type FlagsOf, type SetExitCode } from '../command/flags.ts'

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

/** Adds `eval note` and `eval notes`. */
export function addEvalNoteCommands(evals: Command, setExitCode: SetExitCode): void {
  declareNote(evals).action(async (name, rollout, text, flags) => {
    const { evalNoteCommand } = await import('./notes/run-notes.ts')
    setExitCode(await evalNoteCommand(name, { rollout, text }, flags))
  })
  declareNotes(evals).action(async (name, flags) => {
    const { evalNotesCommand } = await import('./notes/run-notes.ts')
    setExitCode(await evalNotesCommand(name, flags))
  })
}
