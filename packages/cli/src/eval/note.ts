import type { Command } from '@commander-js/extra-typings'

import { example, groups, runsFolder, type FlagsOf } from '../command/flags.ts'

/** Adds `eval note`. */
export function declareNote(evals: Command) {
  return evals
    .command('note')
    .optionsGroup(groups.inputs)
    .option(...runsFolder)
    .description('list the notes of a run, or write the note of a rollout, as in the viewer')
    .argument('<run>', 'a run, or its folder')
    .argument(
      '[rollout]',
      '<row>.<attempt>, the row from 0 and the attempt from 1, e.g. 12.1; without it the notes are listed',
    )
    .argument(
      '[text]',
      'new note of the rollout, in place of the old one; without text and tag, the note is removed',
    )
    .option(
      '--tag <tag>',
      'a short word, by which filters find the rollout, e.g. tag:loop for loop; without a rollout, list only the notes with this tag',
    )
    .optionsGroup(groups.output)
    .option('--json', 'print the list as JSON')
    .addHelpText(
      'after',
      example("osmosis eval note latest 12.1 'calls the tool twice' --tag loop"),
    )
}

/** Flags of `osmosis eval note`. */
export type EvalNoteFlags = FlagsOf<typeof declareNote>
