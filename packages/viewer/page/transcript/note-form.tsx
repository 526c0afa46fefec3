import type { RunTable } from '@osmosis/eval/analysis'
import type { JSX, TargetedSubmitEvent } from 'preact'

interface NoteFormProps {
  readonly table: RunTable
  readonly item: number
  /** Null where nothing can be written. */
  readonly onNote: ((tag: string, text: string) => void) | null
}

/** The id of the field that the key a goes to. */
export const noteFieldId = 'note'

/** What a person says about an item: a tag by which such items are counted, and a sentence. */
export function NoteForm({ table, item, onNote }: NoteFormProps): JSX.Element | null {
  const note = table.note(item)
  if (onNote === null) {
    return note === undefined ? null : (
      <form class="note">
        <span class="kept">
          {note.tag && <span class="chip note">{note.tag}</span>}
          {note.text}
        </span>
      </form>
    )
  }
  const save = (event: TargetedSubmitEvent<HTMLFormElement>): void => {
    event.preventDefault()
    const data = new FormData(event.currentTarget)
    const field = (name: string): string => {
      const value = data.get(name)
      return typeof value === 'string' ? value.trim() : ''
    }
    onNote(field('tag'), field('text'))
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur()
  }
  return (
    <form class="note" key={`${item} ${note?.at ?? ''}`} onSubmit={save}>
      <input
        class="tag"
        name="tag"
        list="tags"
        placeholder="Tag"
        defaultValue={note?.tag ?? ''}
        maxLength={60}
        autocomplete="off"
        aria-label="Tag"
      />
      <input
        id={noteFieldId}
        name="text"
        placeholder="What went wrong first?"
        defaultValue={note?.text ?? ''}
        maxLength={2000}
        autocomplete="off"
        aria-label="Note"
      />
      <datalist id="tags">
        {table.tags().map((tag) => (
          <option key={tag} value={tag} />
        ))}
      </datalist>
      <button class="btn" type="submit">
        Save <kbd>a</kbd>
      </button>
    </form>
  )
}
