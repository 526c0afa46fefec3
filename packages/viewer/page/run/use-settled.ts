import { type RunStatistics, runStatistics } from '@osmosis/eval/analysis'
import { useEffect, useRef, useState } from 'preact/hooks'

import type { DisplayedRun } from './use-run.ts'

/** Up to this number of items everything is drawn immediately. */
const maxImmediateItems = 6_000

/** Minimum time between updates of the map, groups and figures of a large run. Milliseconds. */
const restMs = 1_000

/** Figures are computed again after this many times their computing time. */
const restFactor = 8

/** The run for the map, groups and figures, which for a large live run are updated less often than its lines. */
export function useSettled(run: DisplayedRun): DisplayedRun {
  const [settled, setSettled] = useState(run)
  const nextAt = useRef(0)
  const isSmall = run.table.size <= maxImmediateItems
  useEffect(() => {
    if (isSmall || settled === run) return undefined
    const settle = (): void => {
      nextAt.current = performance.now() + restMs
      setSettled(run)
    }
    const timer = setTimeout(settle, Math.max(50, nextAt.current - performance.now()))
    return () => clearTimeout(timer)
  }, [run, settled])
  // A run that was read again has a new table. The old one may number the items differently than the lines do.
  return isSmall || settled.table !== run.table ? run : settled
}

/** Figures and findings of a run, which for a large live run are updated less often still. Null until they are computed. */
export function useStatistics(run: DisplayedRun): RunStatistics | null {
  const [statistics, setStatistics] = useState<RunStatistics | null>(null)
  const { table } = run
  const nextAt = useRef(0)
  const isSmall = table.size <= maxImmediateItems
  useEffect(() => {
    const compute = (): void => {
      const started = performance.now()
      setStatistics(runStatistics(table))
      const now = performance.now()
      nextAt.current = now + restFactor * (now - started)
    }
    if (isSmall && statistics === null) {
      compute()
      return undefined
    }
    const timer = setTimeout(
      compute,
      Math.max(isSmall ? 0 : 50, nextAt.current - performance.now()),
    )
    return () => clearTimeout(timer)
  }, [run])
  return statistics
}
