import { type RunStatistics, runStatistics } from '@osmosis/eval/analysis'
import { useEffect, useRef, useState } from 'preact/hooks'

import type { DisplayedRun } from './use-run.ts'
import { mostAtOnce } from './use-settled.ts'

/** Figures may take this share of the time while a run is live. */
const restFactor = 8

/**
 * Figures and findings of a run. Of a large run they come after its lines, and then now and then: lines
 * are what a live run is watched for.
 */
export function useStatistics(run: DisplayedRun | null): RunStatistics | null {
  const [statistics, setStatistics] = useState<RunStatistics | null>(null)
  const table = run?.table ?? null
  const nextAt = useRef(0)
  const isSmall = table !== null && table.size <= mostAtOnce
  useEffect(() => {
    if (table === null) return undefined
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
