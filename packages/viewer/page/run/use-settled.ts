import { useEffect, useRef, useState } from 'preact/hooks'

import type { DisplayedRun } from './use-run.ts'

/** Of so many items everything is drawn at once. */
export const maxImmediateItems = 6_000

/** How long what surrounds the lines of a large run may be behind them. Milliseconds. */
const restMs = 1_000

/**
 * The run for what surrounds its lines: the map, groups, figures. Of a large run they follow now and
 * then, because lines are what a live run is watched for.
 */
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
  // Another table is another run.
  return isSmall || settled.table !== run.table ? run : settled
}
