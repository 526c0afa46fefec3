import { useState } from 'preact/hooks'

/** What is written in the fields of a note. */
export interface NoteText {
  readonly tag: string
  readonly text: string
}

/** Notes that were typed and not saved, by run and rollout. */
const drafts = new Map<string, NoteText>()

const keyOf = (name: string): string => `note ${name}`

/** The typed note of a rollout; null for none. It outlives the form, and the page where the browser stores something. */
export function useNoteDraft(
  name: string,
): readonly [draft: NoteText | null, setDraft: (draft: NoteText | null) => void] {
  const [draft, setDraft] = useState(() => drafts.get(name) ?? stored(name))
  return [
    draft,
    (next) => {
      if (next === null) drafts.delete(name)
      else drafts.set(name, next)
      store(name, next)
      setDraft(next)
    },
  ]
}

function stored(name: string): NoteText | null {
  try {
    return JSON.parse(sessionStorage.getItem(keyOf(name)) ?? 'null') as NoteText | null
  } catch {
    return null
  }
}

function store(name: string, draft: NoteText | null): void {
  try {
    if (draft === null) sessionStorage.removeItem(keyOf(name))
    else sessionStorage.setItem(keyOf(name), JSON.stringify(draft))
  } catch {
    // It is lost when the page is closed.
  }
}
