import { OsmosisError } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'

import type { ItemEvent } from '../analysis/item-event.ts'
import type { RunReader } from '../store/run-reader.ts'
import type { GradedRollout } from '../store/run-store.ts'
import type { Grade } from '../store/side-files.ts'
import { isGradable } from './graded-events.ts'
import type { GradeRollouts, RolloutGrade, StoredRollout } from './rollout-grade.ts'

/** Options of {@link regradeRun}. */
export interface RegradeOptions {
  readonly grade: GradeRollouts
  /** The items to grade, in this order. Default: all that have ended. */
  readonly events?: readonly ItemEvent[]
  /**
   * Whether `grade` judges the attempts of a model at a row together: then all of them are in `events`, see
   * {@link wholeGroups}, and those that have not all ended are not graded. Default: false.
   */
  readonly gradesGroups?: boolean
  /** Most rollouts that are graded concurrently. Default: 64; those of one group at least. */
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
  /**
   * Items that nobody came to, because the grading was ended; and those whose group has not ended, where
   * groups are graded.
   */
  readonly pending: readonly ItemEvent[]
}

type End = Grade | 'failed' | 'missing' | 'damaged'

/**
 * Puts the stored samples of a run before a grader. Nothing runs again, no policy is asked, and nothing
 * is written.
 *
 * @throws what `grade` rejects with; OsmosisError with code `judge_failed` when a judge refuses whatever it
 * is asked (401, 402, 404)
 */
export async function regradeRun(run: RunReader, options: RegradeOptions): Promise<Regrading> {
  const { events = run.sortedEvents, gradesGroups = false, maxInFlight = 64, signal } = options
  const { n } = run.manifest
  const groups = gradesGroups
    ? [...Map.groupBy(events, groupOf).values()].filter(({ length }) => length === n)
    : events.map((event) => [event])
  const ends = new Map<ItemEvent, End>()
  let next = 0
  async function work(): Promise<void> {
    for (let group = groups[next++]; group !== undefined; group = groups[next++]) {
      try {
        await untilAborted(signal ?? never, () => gradeGroup(run, group, options, onEnd))
      } catch (error) {
        // For the others as well.
        next = groups.length
        if (!signal?.aborted) throw error
      }
    }
  }
  function onEnd(event: ItemEvent, end: End): void {
    if (signal?.aborted) return
    ends.set(event, end)
    if (typeof end === 'object') options.onGrade?.(end)
  }
  const workers = Math.max(1, Math.floor(maxInFlight / (gradesGroups ? n : 1)))
  await Promise.all(Array.from({ length: Math.min(workers, groups.length) }, work))
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

/** These items with all others of their groups, sorted as those of the run are. */
export function wholeGroups(run: RunReader, events: readonly ItemEvent[]): ItemEvent[] {
  const groups = new Set(events.map(groupOf))
  return run.sortedEvents.filter((event) => groups.has(groupOf(event)))
}

const never = new AbortController().signal

/** The row and the model. */
function groupOf({ source_row_index: row, model_tag: tag = 'primary' }: ItemEvent): string {
  return `${row} ${tag}`
}

async function gradeGroup(
  run: RunReader,
  events: readonly ItemEvent[],
  { grade }: RegradeOptions,
  onEnd: (event: ItemEvent, end: End) => void,
): Promise<void> {
  const members = await Promise.all(
    events.map(async (event) => ({ event, stored: await storedOf(run, event) })),
  )
  // Those without samples are shown to a grader of groups; the row is the same for all.
  const one = members.map(({ stored }) => stored).find((stored) => typeof stored === 'object')
  const rollouts = members.map(({ event, stored }): StoredRollout => {
    const member = {
      rolloutId: event.rollout_id,
      rewards: event.samples,
      group: placeOf(run, event),
    }
    if (typeof stored === 'object') return { ...member, graded: stored }
    const graded = { label: null, metadata: null, artifacts: null, ...one, samples: {} }
    return { ...member, graded, failure: failureOf(event, stored) }
  })
  const grades = one === undefined ? [] : (await grade(rollouts)).map(unlessLasting)
  for (const [index, { event, stored }] of members.entries()) {
    const { source_row_index, run_index, model_tag, rollout_id } = event
    const tag = model_tag === undefined ? {} : { model_tag }
    const given = grades[index]
    if (typeof stored !== 'object') onEnd(event, stored)
    else if (given) onEnd(event, { source_row_index, run_index, ...tag, rollout_id, ...given })
  }
}

/** What the others would meet as well is no grade of this one. */
function unlessLasting({ lasting, ...grade }: RolloutGrade): Omit<RolloutGrade, 'lasting'> {
  if (lasting === undefined) return grade
  throw new OsmosisError('judge_failed', `Nothing can be graded, and nothing is stored. ${lasting}`)
}

async function storedOf(
  run: RunReader,
  event: ItemEvent,
): Promise<GradedRollout | 'failed' | 'missing' | 'damaged'> {
  if (!isGradable(event, run.manifest)) return 'failed'
  const stored = await run.graded(event)
  return stored.state === 'found' ? stored.value : stored.state
}

function placeOf({ manifest }: RunReader, event: ItemEvent): StoredRollout['group'] {
  return { id: groupOf(event), attempt: event.run_index + 1, size: manifest.n }
}

function failureOf(
  { error_type: type, error_message: message }: ItemEvent,
  end: 'failed' | 'missing' | 'damaged',
): NonNullable<StoredRollout['failure']> {
  if (end !== 'failed') {
    return { category: 'agent_error', message: `The stored samples of this attempt are ${end}.` }
  }
  const category = categories.find((known) => type === known) ?? 'agent_error'
  return { category, message: message ?? 'the attempt failed' }
}

const categories = ['timeout', 'validation_error', 'http_error'] as const
