import { useEffect, useRef, useState } from 'preact/hooks'

import type { DisplayedRun } from './use-run.ts'

/** Up to this number of items everything is drawn immediately. */
export const maxImmediateItems = 6_000

/** Minimum time between updates of the map, groups and figures of a large run. Milliseconds. */
const restMs = 1_000

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
  // A new table means another run.
  return isSmall || settled.table !== run.table ? run : settled
}
