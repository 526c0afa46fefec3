import { rolloutName } from '@osmosis/eval/analysis'
import type { JSX, TargetedSubmitEvent } from 'preact'
import { useEffect, useState } from 'preact/hooks'

import type { ItemProps } from '../parts/dot.tsx'
import { type NoteText, useNoteDraft } from './note-draft.ts'

/** Saves a note, and rejects when it was not saved. */
export type OnNote = (tag: string, text: string) => Promise<unknown>

interface NoteFormProps extends ItemProps {
  /** The name of the run. */
  readonly run: string
  /** Null in a report. */
  readonly onNote: OnNote | null
}

/** The id of the field that the key `a` focuses. */
export const noteFieldId = 'note'

/** A person's note about an item: a tag by which items are found, and a text. */
export function NoteForm({ table, item, run, onNote }: NoteFormProps): JSX.Element | null {
  const note = table.note(item)
  if (onNote === null) {
    return note === undefined ? null : (
      <form class="note">
        <span class="saved">
          {note.tag && <span class="chip note">{note.tag}</span>}
          {note.text}
        </span>
      </form>
    )
  }
  const { row, attempt } = table.document.columns
  const place = { source_row_index: row[item] ?? 0, run_index: attempt[item] ?? 0 }
  const name = `${run} ${rolloutName(place)}`
  const saved = { tag: note?.tag ?? '', text: note?.text ?? '' }
  return <EditedNote key={name} {...{ name, saved, onNote }} tags={table.tags()} />
}

type Saving =
  | { readonly state: 'ready' | 'saving' | 'saved' }
  | { readonly state: 'failed'; readonly problem: string }

/** Keeps what is typed until the note of the run says the same: whatever fails or moves on, nothing typed is lost. */
function EditedNote({
  name,
  saved,
  tags,
  onNote,
}: {
  name: string
  saved: NoteText
  tags: readonly string[]
  onNote: OnNote
}): JSX.Element {
  const [draft, setDraft] = useNoteDraft(name)
  const [saving, setSaving] = useState<Saving>({ state: 'ready' })
  const isSame = draft === null || areSame(draft, saved)
  useEffect(() => {
    if (draft !== null && isSame && saving.state === 'saved') setDraft(null)
  }, [isSame, saving.state])
  const shown = draft ?? saved
  const type = (change: Partial<NoteText>): void => {
    const next = { ...shown, ...change }
    setDraft(areSame(next, saved) ? null : next)
    setSaving({ state: 'ready' })
  }
  const save = async (event: TargetedSubmitEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault()
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur()
    const written = { tag: shown.tag.trim(), text: shown.text.trim() }
    setDraft(written)
    setSaving({ state: 'saving' })
    try {
      await onNote(written.tag, written.text)
      setSaving({ state: 'saved' })
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error)
      setSaving({ state: 'failed', problem })
    }
  }
  return (
    <form class="note" onSubmit={(event) => void save(event)}>
      <input
        class="tag"
        list="tags"
        placeholder="Tag"
        value={shown.tag}
        maxLength={60}
        autocomplete="off"
        aria-label="Tag"
        onInput={({ currentTarget }) => type({ tag: currentTarget.value })}
      />
      <input
        id={noteFieldId}
        placeholder="What went wrong first?"
        value={shown.text}
        maxLength={2000}
        autocomplete="off"
        aria-label="Note"
        onInput={({ currentTarget }) => type({ text: currentTarget.value })}
      />
      <datalist id="tags">
        {tags.map((tag) => (
          <option key={tag} value={tag} />
        ))}
      </datalist>
      <button class="btn" type="submit">
        Save <kbd>a</kbd>
      </button>
      {saving.state === 'failed' ? (
        <span class="outcome alarm" role="alert">
          Not saved: {saving.problem} What you typed stays here.
        </span>
      ) : (
        !isSame && saving.state === 'ready' && <span class="outcome dim">Not saved yet.</span>
      )}
    </form>
  )
}

function areSame(a: NoteText, b: NoteText): boolean {
  return a.tag === b.tag && a.text === b.text
}
