import { OsmosisError } from '@osmosis/core'
import { itemKey } from '@osmosis/eval'
import { rolloutName, type RunNote } from '@osmosis/eval/analysis'

import { printError, printOut } from '../../command/surroundings.ts'
import { onOneLine } from '../../command/terminal-text.ts'
import type { EvalNoteFlags, EvalNotesFlags } from '../notes.ts'
import { findRun, runsRoot, openShownRun, type ShownRun } from '../show/shown-run.ts'
import { namedItems } from '../show/shown-items.ts'

/** A note from the command line. */
interface GivenNote {
  /** `<row>.<attempt>`. */
  readonly rollout: string
  readonly text: string | undefined
}

/**
 * Adds a note to a rollout, or removes it. Resolves with the exit code.
 *
 * @throws OsmosisError with code `invalid_config` for a run or rollout that does not exist, `damaged_run`, `storage_error`
 */
export async function evalNoteCommand(
  name: string,
  { rollout, text = '' }: GivenNote,
  { tag = '', output }: EvalNoteFlags,
): Promise<number> {
  const run = await openNoted(name, output)
  const [named, ...others] = namedItems(run, rollout)
  if (named === undefined || others.length > 0) {
    throw new OsmosisError(
      'invalid_config',
      `A note belongs to one attempt: write ${rollout}.1 for the first attempt at row ${rollout}.`,
    )
  }
  const { source_row_index, run_index, model_tag } = named.event
  await run.reader.addNote({
    source_row_index,
    run_index,
    ...(model_tag === undefined ? {} : { model_tag }),
    tag: tag.trim() === '' ? null : tag.trim(),
    text: text.trim(),
  })
  return 0
}

/** Lists the current notes of a run. Resolves with the exit code. Throws as `evalNoteCommand` does. */
export async function evalNotesCommand(
  name: string,
  { tag, json, output }: EvalNotesFlags,
): Promise<number> {
  const { reader, modelTag } = await openNoted(name, output)
  const all = (await reader.notes()).filter(({ model_tag: of = 'primary' }) => of === modelTag)
  const last = new Map(all.map((note) => [itemKey(note), note]))
  const notes = [...last.values()]
    .filter((note) => !isRemoved(note) && (tag === undefined || note.tag === tag))
    .toSorted((a, b) => a.source_row_index - b.source_row_index || a.run_index - b.run_index)
  if (json) {
    printOut(`${JSON.stringify({ run: reader.name, notes }, null, 2)}\n`)
    return 0
  }
  for (const note of notes) printOut(`${noteLine(note)}\n`)
  if (notes.length === 0) printError('The run has no notes.\n')
  return 0
}

function noteLine(note: RunNote): string {
  const { tag, text } = note
  const words = [tag ? `[${tag}]` : '', text].filter((word) => word !== '').join(' ')
  return `${rolloutName({ ...note, model_tag: 'primary' })}  ${onOneLine(words)}`
}

function isRemoved({ tag, text }: RunNote): boolean {
  return (tag === null || tag === '') && text === ''
}

/** Notes belong to transcripts, so a re-grading has the notes of its run. */
async function openNoted(name: string, output: string | undefined): Promise<ShownRun> {
  const { location, variant } = await findRun(name, await runsRoot(output))
  return openShownRun({ location, variant: variant === 'baseline' ? variant : undefined })
}
