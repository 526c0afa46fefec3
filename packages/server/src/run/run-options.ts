import type { RunAnswerRules } from './run-answer.ts'

/** How rollouts of `POST /run` are run. */
export interface RunRouteOptions extends RunAnswerRules {
  /**
   * Column of the row that names its group: rollouts with the same value are attempts of one group, in
   * the order in which they come. Default: they belong to none.
   */
  groupColumn?: string | undefined
  /**
   * How many attempts a group has; after so many the next one begins, under an id of its own. Default:
   * not known, and all with the same value are one group.
   */
  groupSize?: number | undefined
  /** Seconds the workflow may take. Default: as long as the trainer waits. */
  agentTimeoutSeconds?: number | undefined
  /** Seconds the grader may take. Default: as long as the trainer waits. */
  graderTimeoutSeconds?: number | undefined
}
