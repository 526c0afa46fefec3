import { OsmosisError } from '@osmosis/core'

import type { ItemEvent } from '../analysis/records/item-event.ts'
import { trajectoryFacts } from '../analysis/trajectory/trajectory-facts.ts'
import { EvaluationState } from '../run/evaluation-state.ts'
import { RunSnapshotFiles } from '../run/run-snapshots.ts'
import { resumeRun, type ResumeRunOptions } from '../store/write/create-run.ts'
import { itemKey } from '../store/run-files.ts'
import { openRun, type RunReader } from '../store/read/run-reader.ts'
import type { RunStore } from '../store/write/run-store.ts'
import { readProgress } from '../store/write/snapshot-files.ts'
import { gradedEvent, ownGrade } from './rollout-grade.ts'

/** The grading that stores the original rewards of a run that has adopted another grading. */
export const originalGrading = 'original'

/**
 * Replaces the rewards of a run with those of a re-grading. The original rewards are stored as the grading
 * `original`, which can be adopted again.
 *
 * @returns the number of items whose reward changed
 * @throws OsmosisError with code `invalid_config` when there is no such grading, `run_locked`,
 * `damaged_run`, `storage_error`
 */
export async function adoptGrading(
  grading: string,
  options: Pick<ResumeRunOptions, 'location' | 'breakLock'>,
): Promise<number> {
  const store = await resumeRun(options)
  try {
    const run = await openRun(options.location)
    const grades = await run.grades(grading)
    if (grades.size === 0) {
      throw new OsmosisError(
        'invalid_config',
        `The run ${run.name} has no grading ${grading}. Its gradings: ${(await run.gradings()).join(', ') || 'none'}.`,
      )
    }
    const changes = run.sortedEvents.flatMap((event): [ItemEvent, ItemEvent][] => {
      const grade = grades.get(itemKey(event))
      return grade === undefined ? [] : [[event, gradedEvent(event, grade)]]
    })
    await storeOriginal(
      run,
      changes.map(([before]) => before),
    )
    await Promise.all(
      changes.map(async ([before, after]) => store.amend(await ended(run, before, after))),
    )
    await refreshSnapshots(store)
    return changes.filter(([before, after]) => before.reward !== after.reward).length
  } finally {
    await store.close()
  }
}

/** Updates the snapshot files from the journal. */
async function refreshSnapshots(store: RunStore): Promise<void> {
  const { inputs, n, pass_threshold: passThreshold, rows, run_name: run } = store.manifest
  const { model, dataset, code } = inputs
  const state = new EvaluationState(
    {
      names: { run, rollout: code.rollout, dataset: dataset.name },
      rowCount: rows.length,
      attempts: n,
      passThreshold,
      scoreNames: code.scorers,
      model: model.name,
      baseline: model.baseline ?? undefined,
    },
    store,
  )
  await new RunSnapshotFiles(store, model.baseline !== null).write(
    state.ended(readProgress(store.location).incompleteReason),
  )
}

/** The first rewards of an item are its original ones, even if others are adopted several times. */
async function storeOriginal(run: RunReader, events: readonly ItemEvent[]): Promise<void> {
  const stored = await run.grades(originalGrading)
  const added = events.filter((event) => !stored.has(itemKey(event))).map(ownGrade)
  if (added.length > 0) await run.addGrades(originalGrading, added)
}

/** The summary of an item that no longer counts as failed becomes the last text of its conversation. */
async function ended(run: RunReader, before: ItemEvent, after: ItemEvent): Promise<ItemEvent> {
  const withScores = { ...scoresOf(before), ...after }
  if (before.status !== 'failed' || after.status === 'failed') return withScores
  const stored = await run.trajectories(before)
  if (stored.state !== 'found') return withScores
  return { ...withScores, summary: trajectoryFacts(Object.values(stored.value)).summary }
}

function scoresOf({ scores, score_errors }: ItemEvent): Pick<ItemEvent, 'scores' | 'score_errors'> {
  return { ...(scores && { scores }), ...(score_errors && { score_errors }) }
}
