import { useEffect, useState } from 'preact/hooks'

import type { ItemEnding, TranscriptAnswer } from '../../src/wire.ts'
import type { DisplayedRun } from '../run/use-run.ts'
import type { LeftOut, Source } from '../source/source.ts'

/** What was said in an item; `loading` before it is there, `failed` when nothing answers. */
export type TranscriptState =
  | TranscriptAnswer
  | LeftOut
  | { readonly state: 'loading' }
  | { readonly state: 'failed'; readonly problem: string }

/** Reads what was said in an item. The one before stays until the next is there. */
export function useTranscript(
  source: Source,
  { name, table }: Pick<DisplayedRun, 'name' | 'table'>,
  item: number | null,
): TranscriptState {
  const [state, setState] = useState<TranscriptState>({ state: 'loading' })
  const { row, attempt, endedSeconds } = table.document.columns
  // An item that ends again has another transcript.
  const ended = item === null ? null : endedSeconds[item]
  useEffect(() => {
    if (item === null) return undefined
    let isGone = false
    const show = (next: TranscriptState): void => {
      if (!isGone) setState(next)
    }
    source.transcript(name, [row[item] ?? 0, attempt[item] ?? 0]).then(show, (error: unknown) => {
      show({ state: 'failed', problem: error instanceof Error ? error.message : String(error) })
    })
    return () => {
      isGone = true
    }
  }, [source, name, item, ended])
  return state
}

/** How the item ended; null while that is not known. */
export function endingOf(transcript: TranscriptState): ItemEnding | null {
  return 'ending' in transcript ? transcript.ending : null
}

/** Why there is nothing to read. */
export function absenceText(transcript: TranscriptState): readonly [title: string, detail: string] {
  switch (transcript.state) {
    case 'silent':
      return ['Nothing was said', 'The rollout ended before it asked the policy anything.']
    case 'missing':
      return ['The transcript is lost', 'Its file is gone. The row counts all the same.']
    case 'damaged':
      return [
        'The transcript is damaged',
        'What is in its file is not what was written. The row counts all the same.',
      ]
    case 'left out':
      return [
        'Not in this report',
        'Export it with --transcripts all to have the transcript of every rollout.',
      ]
    case 'failed':
      return ['The transcript cannot be read', transcript.problem]
    case 'found':
    case 'loading':
      return ['', '']
  }
}
