import type { Trajectory } from '@osmosis/protocol/trajectory'
import { useEffect, useState } from 'preact/hooks'

import type { ItemEnding, TranscriptAnswer } from '../../src/wire.ts'
import type { DisplayedRun } from '../run/use-run.ts'
import type { OmittedTranscript, Source } from '../source/source.ts'

/** The transcript of an item, or why it is not shown. */
export type TranscriptState =
  | TranscriptAnswer
  | OmittedTranscript
  | { readonly state: 'loading' }
  | { readonly state: 'failed'; readonly problem: string }

/** The sample of this name, or else the first one. */
export function trajectoryOf(
  transcript: TranscriptState,
  sample: string | undefined,
): Trajectory | null {
  if (transcript.state !== 'found') return null
  const { samples } = transcript
  if (sample !== undefined && Object.hasOwn(samples, sample)) return samples[sample] ?? null
  return Object.values(samples)[0] ?? null
}

/** Reads the transcript of an item. The previous one stays until the next is loaded. */
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
    let isCancelled = false
    const show = (next: TranscriptState): void => {
      if (!isCancelled) setState(next)
    }
    source.transcript(name, [row[item] ?? 0, attempt[item] ?? 0]).then(show, (error: unknown) => {
      show({ state: 'failed', problem: error instanceof Error ? error.message : String(error) })
    })
    return () => {
      isCancelled = true
    }
  }, [source, name, item, ended])
  return state
}

/** How the item ended; null while unknown. */
export function endingOf(transcript: TranscriptState): ItemEnding | null {
  return 'ending' in transcript ? transcript.ending : null
}

/** Why there is nothing to read. */
export function absenceText(transcript: TranscriptState): readonly [title: string, detail: string] {
  switch (transcript.state) {
    case 'silent':
      return ['No conversation', 'The rollout ended before it called the policy.']
    case 'missing':
      return [
        'The transcript is missing',
        'Its file was removed. Figures still include the rollout.',
      ]
    case 'damaged':
      return [
        'The transcript is damaged',
        'Its file was changed or is damaged. Figures still include the rollout.',
      ]
    case 'omitted':
      return [
        'Not in this report',
        'Export the report with --transcripts all to include every transcript.',
      ]
    case 'failed':
      return ['The transcript cannot be read', transcript.problem]
    case 'found':
    case 'loading':
      return ['', '']
  }
}
