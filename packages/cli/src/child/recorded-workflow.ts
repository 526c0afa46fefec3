import { WorkerRecord } from '@osmosis/eval'
import type { Logger } from '@osmosis/server'
import { withStages } from '@osmosis/server/execution'

import { displayPath, redaction } from '../command/command-context.ts'
import type { ServedWorkflow } from './served-workflow.ts'

/**
 * The same workflow, whose rollouts are recorded in a folder as a training that `osmosis eval view` opens; unchanged
 * without a folder.
 *
 * @param trainer - named in the record
 * @throws OsmosisError with code `run_locked` when another process records there, `damaged_run`, `storage_error`
 */
export async function recordedWorkflow(
  served: ServedWorkflow,
  folder: string | undefined,
  trainer: string,
  logger: Logger,
): Promise<ServedWorkflow> {
  if (folder === undefined) return served
  const record = await WorkerRecord.open({
    folder: displayPath(folder),
    trainer,
    rollout: served.facts.workflow,
    redact: (data) => redaction().data(data),
    onProblem: (problem) => logger.error({ record: folder }, problem),
  })
  return {
    ...served,
    backend: withStages(served.backend, record.recorded),
    close: async () => {
      await served.close()
      await record.close()
    },
  }
}
