import type { RowHistory } from '@osmosis/eval/analysis'
import { useEffect, useState } from 'preact/hooks'

import type { TrainingAnswer } from '../../src/wire.ts'
import type { Source } from '../source/source.ts'

/** Interval of reading a training again: while it runs, and afterwards, when it may be continued. Milliseconds. */
const runningMs = 1000
const restingMs = 5000

export type TrainingState =
  | { readonly state: 'loading' }
  | { readonly state: 'failed'; readonly problem: string }
  | { readonly state: 'shown'; readonly training: TrainingAnswer }

/** Reads a training, again and again. */
export function useTraining(source: Source, name: string): TrainingState {
  const [state, setState] = useState<TrainingState>({ state: 'loading' })
  useEffect(() => {
    let isCancelled = false
    let timer: ReturnType<typeof setTimeout> | undefined
    let shown = ''
    const read = async (): Promise<void> => {
      let pauseMs = restingMs
      try {
        const training = await source.training?.(name)
        if (training === undefined) throw new Error('This report holds no training.')
        if (training.state === 'running') pauseMs = runningMs
        const text = JSON.stringify(training)
        if (!isCancelled && text !== shown) setState({ state: 'shown', training })
        shown = text
      } catch (error) {
        const problem = error instanceof Error ? error.message : String(error)
        if (!isCancelled && shown === '') setState({ state: 'failed', problem })
      }
      if (!isCancelled) timer = setTimeout(() => void read(), pauseMs)
    }
    void read()
    return () => {
      isCancelled = true
      clearTimeout(timer)
    }
  }, [source, name])
  return state
}

/**
 * The rows over the steps; null until they are read.
 *
 * @param changedAt - when the last step was recorded: they are read again when it changes
 */
export function useTrainingRows(
  source: Source,
  name: string,
  changedAt: string,
): readonly RowHistory[] | null {
  const [rows, setRows] = useState<readonly RowHistory[] | null>(null)
  useEffect(() => {
    let isCancelled = false
    const read = async (): Promise<void> => {
      try {
        const answer = await source.trainingRows?.(name)
        if (!isCancelled && answer !== undefined) setRows(answer)
      } catch {
        // The next step reads them again; the curves say more about what is wrong.
      }
    }
    void read()
    return () => {
      isCancelled = true
    }
  }, [source, name, changedAt])
  return rows
}
