import { itemKey } from '@osmosis/eval'
import { rolloutName, type RunNote } from '@osmosis/eval/analysis'

import { printError, printJson, printOut } from '../../command/command-context.ts'
import { onOneLine } from '../../command/terminal-text.ts'
import { invalid } from '../../command/wrong-use.ts'
import type { EvalNoteFlags } from '../note.ts'
import { namedItems } from '../show/shown-items.ts'
import { findRun, runsRoot, openShownRun, type ShownRun } from '../show/shown-run.ts'

/**
 * Lists the notes of a run; with a rollout, writes its note or removes it. Resolves with the exit code.
 *
 * @throws OsmosisError with code `invalid_config` for a run or rollout that does not exist, `damaged_run`, `storage_error`
 */
export async function evalNoteCommand(
  name: string,
  rollout: string | undefined,
  text: string | undefined,
  { tag, json, output }: EvalNoteFlags,
): Promise<number> {
  const { location } = await findRun(name, await runsRoot(output))
  // Notes belong to transcripts, so a re-grading has the notes of its run.
  const run = await openShownRun({ location, variant: undefined })
  if (rollout !== undefined) {
    await writeNote(run, rollout, { tag: tag?.trim() || null, text: text?.trim() ?? '' })
    return 0
  }
  const notes = await currentNotes(run, tag)
  if (json) printJson({ run: run.reader.name, notes })
  else if (notes.length === 0) printError('The run has no notes.\n')
  else for (const note of notes) printOut(`${noteLine(note)}\n`)
  return 0
}

async function writeNote(
  run: ShownRun,
  rollout: string,
  note: Pick<RunNote, 'tag' | 'text'>,
): Promise<void> {
  const [named, ...others] = namedItems(run, rollout)
  if (named === undefined || others.length > 0) {
    throw invalid(
      `A note belongs to one attempt: write ${rollout}.1 for the first attempt at row ${rollout}.`,
    )
  }
  const { source_row_index, run_index } = named.event
  await run.reader.addNote({ source_row_index, run_index, ...note })
}

/** The last note of each rollout, by row and attempt, without those that were removed. */
async function currentNotes({ reader }: ShownRun, tag: string | undefined): Promise<RunNote[]> {
  const last = new Map((await reader.notes()).map((note) => [itemKey(note), note]))
  return [...last.values()]
    .filter((note) => Boolean(note.tag) || note.text !== '')
    .filter((note) => tag === undefined || note.tag === tag)
    .toSorted((a, b) => a.source_row_index - b.source_row_index || a.run_index - b.run_index)
}

function noteLine(note: RunNote): string {
  const words = [note.tag ? `[${note.tag}]` : '', note.text].filter((word) => word !== '')
  return `${rolloutName(note)}  ${onOneLine(words.join(' '))}`
}
