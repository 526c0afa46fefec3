import { isGroupGraderClass } from '@osmosis/core/workflow'

import { invalid } from '../command/wrong-use.ts'
import {
  requireWorkflow,
  type LoadedEntrypoint,
  type LoadedWorkflow,
} from '../inputs/load-entrypoint.ts'

/**
 * Takes an entrypoint for a queue, whose workers run the rollouts.
 *
 * @throws OsmosisError with code `invalid_config` for an agent loop, and for a grader of groups
 */
export function queuedWorkflow(loaded: LoadedEntrypoint): LoadedWorkflow {
  const workflow = requireWorkflow(loaded, 'A queue')
  const { grader } = workflow.entrypoint
  if (!isGroupGraderClass(grader)) return workflow
  throw invalid(
    `A queue spreads the attempts at a row over its workers, and ${grader.name} of ${loaded.file} is a GroupGrader, which has to see all of them: leave out --redis.`,
  )
}
