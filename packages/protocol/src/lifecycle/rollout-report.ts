import type {
  GradingOutcome,
  RolloutEvent,
  SamplesById,
  WorkflowOutcome,
} from './execution-backend.ts'

/** All that the events of a rollout have said. */
export interface RolloutReport {
  readonly workflow: WorkflowOutcome
  /** The samples of the workflow, before grading. */
  readonly samples: SamplesById
  /** Undefined: it was not graded, because its workflow failed or nobody asked for that. */
  readonly grading: GradingOutcome | undefined
}

/** What the events have said after one more; undefined until the workflow has ended. */
export function reportAfter(
  report: RolloutReport | undefined,
  event: RolloutEvent,
): RolloutReport | undefined {
  switch (event.type) {
    case 'started':
      return report
    case 'workflow':
      return { workflow: event.outcome, samples: event.samples, grading: undefined }
    case 'graded':
      return report && { ...report, grading: event.outcome }
  }
}

/**
 * Reads a rollout to its end.
 *
 * @param onEvent - awaited for each event, before the next one is asked for
 * @throws Error when no event says how the workflow ended
 */
export async function reportOf(
  events: AsyncIterable<RolloutEvent>,
  onEvent?: (event: RolloutEvent) => void | Promise<void>,
): Promise<RolloutReport> {
  let report: RolloutReport | undefined
  for await (const event of events) {
    report = reportAfter(report, event)
    await onEvent?.(event)
  }
  if (report === undefined) throw new Error('The rollout ended without a result.')
  return report
}
