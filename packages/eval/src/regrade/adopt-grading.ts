import { OsmosisError } from '@osmosis/core'

import type { ItemEvent } from '../analysis/item-event.ts'
import { trajectoryFacts } from '../analysis/trajectory-facts.ts'
import { EvaluationState } from '../run/evaluation-state.ts'
import { earlierReason, RunSnapshotFiles } from '../run/run-snapshots.ts'
import { resumeRun, type ResumeRunOptions } from '../store/create-run.ts'
import { itemKey } from '../store/run-files.ts'
import { openRun, type RunReader } from '../store/run-reader.ts'
import type { RunStore } from '../store/run-store.ts'
import { gradedEvent, ownGrade } from './graded-events.ts'

/** The grading that keeps the rewards that a run had before it adopted others. */
export const originalGrading = 'original'

/**
 * Makes the rewards of a re-grading those of the run itself. What the run said before is kept as the
 * grading `original`, which can be adopted again.
 *
 * @returns how many items have other rewards than before
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
    await keepOriginal(
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

/** The files for readers say what the journal does. */
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
    state.ended(earlierReason(store.location)),
  )
}

/** The first rewards of an item are its original ones, however often others are adopted. */
async function keepOriginal(run: RunReader, events: readonly ItemEvent[]): Promise<void> {
  const kept = await run.grades(originalGrading)
  const added = events.filter((event) => !kept.has(itemKey(event))).map(ownGrade)
  if (added.length > 0) await run.addGrades(originalGrading, added)
}

/** An item that is no failure any more ends with what was said last. */
async function ended(run: RunReader, before: ItemEvent, after: ItemEvent): Promise<ItemEvent> {
  const keepsScores = { ...scoresOf(before), ...after }
  if (before.status !== 'failed' || after.status === 'failed') return keepsScores
  const said = await run.trajectories(before)
  if (said.state !== 'found') return keepsScores
  return { ...keepsScores, summary: trajectoryFacts(Object.values(said.value)).summary }
}

/** Eval functions have scored the run beside its rewards. */
function scoresOf({ scores, score_errors }: ItemEvent): Pick<ItemEvent, 'scores' | 'score_errors'> {
  return { ...(scores && { scores }), ...(score_errors && { score_errors }) }
}
