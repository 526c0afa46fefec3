import { OsmosisError } from '@osmosis/core'
import { untilAborted } from '@osmosis/core/http'

import type { ItemEvent } from '../analysis/records/item-event.ts'
import type { RunReader } from '../store/read/run-reader.ts'
import type { Grade } from '../store/side-files.ts'
import type { GradedRollout } from '../store/write/run-store.ts'
import {
  isGradable,
  type GradeRollouts,
  type RolloutGrade,
  type StoredRollout,
} from './rollout-grade.ts'

/** Options of {@link regradeRun}. */
export interface RegradeOptions {
  readonly grade: GradeRollouts
  /** The items to grade, in this order. Default: all that have ended. */
  readonly events?: readonly ItemEvent[]
  /**
   * Whether `grade` grades the attempts of a model at a row together: then `events` must have all of them,
   * see {@link wholeGroups}, and groups that have not ended completely are not graded. Default: false.
   */
  readonly gradesGroups?: boolean
  /** Maximum rollouts that are graded concurrently. Default: 64; at least one group. */
  readonly maxInFlight?: number
  /** Ends the grading; the grades so far are returned. */
  readonly signal?: AbortSignal
  /** Called after each grade. */
  readonly onGrade?: (grade: Grade) => void
}

/** The result of a re-grading. */
export interface Regrading {
  /** In the order of the items. */
  readonly grades: readonly Grade[]
  /** Items that failed before there was anything to grade. */
  readonly failed: readonly ItemEvent[]
  /** Items whose stored samples are missing. */
  readonly missing: readonly ItemEvent[]
  /** Items whose stored samples are damaged. */
  readonly damaged: readonly ItemEvent[]
  /** Items that were not graded before `signal` aborted, or whose group has not ended. */
  readonly pending: readonly ItemEvent[]
}

type GradingResult = Grade | 'failed' | 'missing' | 'damaged'

/**
 * Grades the stored samples of a run. No workflow runs, no policy is called, and nothing is written.
 *
 * @throws what `grade` rejects with; OsmosisError with code `judge_failed` when a judge refuses every request
 * (401, 402, 404)
 */
export async function regradeRun(run: RunReader, options: RegradeOptions): Promise<Regrading> {
  const { events = run.sortedEvents, gradesGroups = false, maxInFlight = 64, signal } = options
  const { n } = run.manifest
  const groups = gradesGroups
    ? [...Map.groupBy(events, rowOf).values()].filter(({ length }) => length === n)
    : events.map((event) => [event])
  const results = new Map<ItemEvent, GradingResult>()
  let next = 0
  async function work(): Promise<void> {
    for (let group = groups[next++]; group !== undefined; group = groups[next++]) {
      try {
        await untilAborted(signal ?? never, () => gradeGroup(run, group, options, onResult))
      } catch (error) {
        // Stops the other workers too.
        next = groups.length
        if (!signal?.aborted) throw error
      }
    }
  }
  function onResult(event: ItemEvent, result: GradingResult): void {
    if (signal?.aborted) return
    results.set(event, result)
    if (typeof result === 'object') options.onGrade?.(result)
  }
  const workers = Math.max(1, Math.floor(maxInFlight / (gradesGroups ? n : 1)))
  await Promise.all(Array.from({ length: Math.min(workers, groups.length) }, work))
  const only = (result: unknown): ItemEvent[] =>
    events.filter((event) => results.get(event) === result)
  return {
    grades: events.flatMap((event) => {
      const result = results.get(event)
      return typeof result === 'object' ? [result] : []
    }),
    failed: only('failed'),
    missing: only('missing'),
    damaged: only('damaged'),
    pending: only(undefined),
  }
}

/** All items of the groups of these items, sorted as in the run. */
export function wholeGroups(run: RunReader, events: readonly ItemEvent[]): ItemEvent[] {
  const rows = new Set(events.map(rowOf))
  return run.sortedEvents.filter((event) => rows.has(rowOf(event)))
}

const never = new AbortController().signal

function rowOf({ source_row_index: row }: ItemEvent): number {
  return row
}

async function gradeGroup(
  run: RunReader,
  events: readonly ItemEvent[],
  { grade }: RegradeOptions,
  onResult: (event: ItemEvent, result: GradingResult) => void,
): Promise<void> {
  const members = await Promise.all(
    events.map(async (event) => ({ event, stored: await storedOf(run, event) })),
  )
  // A group grader sees attempts without samples too; the row is the same for all.
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
    const { source_row_index, run_index, rollout_id } = event
    const given = grades[index]
    if (typeof stored !== 'object') onResult(event, stored)
    else if (given) onResult(event, { source_row_index, run_index, rollout_id, ...given })
  }
}

/** An error that every other rollout would get too is not a grade of this one. */
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
  return { id: String(rowOf(event)), attempt: event.run_index + 1, size: manifest.n }
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
