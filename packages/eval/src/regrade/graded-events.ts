import type { ItemEvent } from '../analysis/item-event.ts'
import type { RunManifest } from '../analysis/run-manifest.ts'
import { toSummary } from '../analysis/trajectory-facts.ts'
import { itemKey } from '../store/run-files.ts'
import type { Grade } from '../store/side-files.ts'

/**
 * Whether an item got as far as its grader, and so can be graded again. An agent loop that failed did
 * not, although its messages are kept.
 */
export function isGradable(event: ItemEvent, { inputs }: Pick<RunManifest, 'inputs'>): boolean {
  if (event.sat === null) return false
  const { kind } = inputs.code
  return kind === 'workflow' || event.status !== 'failed' || event.error_type === 'missing_reward'
}

/**
 * The events of a run as a re-grading has them. Items that failed before they could be graded are as
 * they were; others that the grading has not judged are left out.
 */
export function gradedEvents(
  manifest: RunManifest,
  events: Iterable<ItemEvent>,
  grades: ReadonlyMap<string, Grade>,
): ItemEvent[] {
  return [...events].flatMap((event) => {
    const grade = grades.get(itemKey(event))
    if (grade !== undefined) return [gradedEvent(event, grade)]
    return isGradable(event, manifest) ? [] : [event]
  })
}

/** An event with the rewards of a grade instead of its own. */
export function gradedEvent(event: ItemEvent, grade: Grade): ItemEvent {
  const { reward, skipped, error, samples = {}, metrics = {} } = grade
  const { scores: _scores, score_errors: _errors, ...rest } = event
  const scores = grade.scores === undefined ? {} : { scores: grade.scores }
  const graded = { ...rest, ...scores, reward, samples, metrics }
  if (error !== null) {
    const type = grade.error_type ?? 'grader_failed'
    const summary = toSummary(error)
    return { ...graded, status: 'failed', error_type: type, error_message: error, summary }
  }
  return {
    ...graded,
    status: skipped ? 'skipped' : 'success',
    error_type: null,
    error_message: null,
    // It ended with an error that is none any more.
    summary: event.status === 'failed' ? '' : event.summary,
  }
}

/** What the run itself says of an item, as a grade. */
export function ownGrade(event: ItemEvent): Grade {
  const { source_row_index, run_index, model_tag, rollout_id, reward, samples, metrics } = event
  const { status, error_message: error, error_type: type, scores } = event
  return {
    source_row_index,
    run_index,
    ...(model_tag === undefined ? {} : { model_tag }),
    rollout_id,
    reward,
    ...(status === 'skipped' ? { skipped: true } : {}),
    samples,
    metrics,
    ...(scores === undefined ? {} : { scores }),
    error: status === 'failed' ? (error ?? '') : null,
    ...(type === null ? {} : { error_type: type }),
  }
}
