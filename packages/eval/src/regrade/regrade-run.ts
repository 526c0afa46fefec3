import { untilAborted } from '@osmosis/core/http'

import type { ItemEvent } from '../analysis/item-event.ts'
import type { RunReader } from '../store/run-reader.ts'
import type { Grade } from '../store/side-files.ts'
import { isGradable } from './graded-events.ts'
import type { GradeRollout } from './rollout-grade.ts'

/** Options of {@link regradeRun}. */
export interface RegradeOptions {
  readonly grade: GradeRollout
  /** The items to grade, in this order. Default: all that have ended. */
  readonly events?: readonly ItemEvent[]
  /** Most rollouts that are graded at the same time. Default: 64. */
  readonly maxInFlight?: number
  /** Ends the grading; what has been graded until then is the result. */
  readonly signal?: AbortSignal
  /** Called after each grade. */
  readonly onGrade?: (grade: Grade) => void
}

/** What became of the items of a re-grading. */
export interface Regrading {
  /** In the order of the items. */
  readonly grades: readonly Grade[]
  /** Items that failed before there was anything to grade. */
  readonly failed: readonly ItemEvent[]
  /** Items whose stored samples are gone. */
  readonly missing: readonly ItemEvent[]
  /** Items whose stored samples are not what was written. */
  readonly damaged: readonly ItemEvent[]
  /** Items that nobody came to, because the grading was ended. */
  readonly pending: readonly ItemEvent[]
}

/**
 * Puts the stored samples of a run before a grader. Nothing runs again, no policy is asked, and nothing
 * is written.
 *
 * @throws what `grade` rejects with
 */
export async function regradeRun(run: RunReader, options: RegradeOptions): Promise<Regrading> {
  const { events = run.sortedEvents, maxInFlight = 64, signal } = options
  const ends = new Map<ItemEvent, Grade | 'failed' | 'missing' | 'damaged'>()
  let next = 0
  async function work(): Promise<void> {
    for (let event = events[next++]; event !== undefined; event = events[next++]) {
      try {
        const end = await untilAborted(signal ?? never, () => endOf(run, event, options.grade))
        ends.set(event, end)
        if (typeof end === 'object') options.onGrade?.(end)
      } catch (error) {
        // For the others as well.
        next = events.length
        if (!signal?.aborted) throw error
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(maxInFlight, events.length) }, work))
  const only = (end: unknown): ItemEvent[] => events.filter((event) => ends.get(event) === end)
  return {
    grades: events.flatMap((event) => {
      const end = ends.get(event)
      return typeof end === 'object' ? [end] : []
    }),
    failed: only('failed'),
    missing: only('missing'),
    damaged: only('damaged'),
    pending: only(undefined),
  }
}

const never = new AbortController().signal

async function endOf(
  run: RunReader,
  event: ItemEvent,
  grade: GradeRollout,
): Promise<Grade | 'failed' | 'missing' | 'damaged'> {
  if (!isGradable(event, run.manifest)) return 'failed'
  const stored = await run.graded(event)
  if (stored.state !== 'found') return stored.state
  const { source_row_index, run_index, model_tag, rollout_id } = event
  const given = await grade({
    rolloutId: rollout_id,
    graded: stored.value,
    rewards: event.samples,
  })
  const tag = model_tag === undefined ? {} : { model_tag }
  return { source_row_index, run_index, ...tag, rollout_id, ...given }
}
