import { readServerEnvironment } from '@osmosis/server'

import { loadEntrypoint } from '../inputs/load-entrypoint.ts'
import { egressOf } from '../command/flags.ts'
import { serverKeys } from './server-keys.ts'
import type { ServeFlags } from './serve.ts'
import { localWorkflow } from './served-workflow.ts'
import { assertWorkflowFlags, openWorkflowPort } from './workflow-port.ts'
import { queueAccess, queuedWorkflow, shortCode, workersText } from '../worker/queue-access.ts'
import { environment } from '../command/surroundings.ts'
import { commandLogger } from './server-end.ts'

/**
 * Serves the rollouts of a workflow that workers of a queue run, until a signal ends the process. The
 * workflow is loaded to say what it is; nothing of it is run here.
 *
 * @param redis - the flag of that name
 * @throws OsmosisError with code `invalid_config`, `invalid_entrypoint`; `queue_unavailable` when the
 * Redis does not answer
 */
export async function serveQueue(spec: string, redis: string, flags: ServeFlags): Promise<void> {
  const settings = readServerEnvironment(environment())
  const apiKey = serverKeys(flags, settings.apiKey)
  const loaded = queuedWorkflow(await loadEntrypoint(spec))
  assertWorkflowFlags(flags, loaded.file)
  const { queuePackage, connection, code, place } = await queueAccess(redis, flags, loaded.file)
  const { artifactRoot, instanceId, port } = settings
  const logger = commandLogger(flags)
  if (settings.ownership !== undefined) {
    logger.warn({}, 'ownership is not reported: every server of a queue has every rollout')
  }
  const egress = egressOf(flags)
  const { backend, facts, check } = localWorkflow(loaded, { artifactRoot, egress })
  const queue = await queuePackage.openQueue(connection)
  const close = async (): Promise<void> => queue.close()
  try {
    const { maxRollouts: most } = flags
    if (most !== undefined) await queue.setMaxRollouts(most === 'none' ? null : most)
    const server = queuePackage.createQueueServer({
      queue,
      code,
      logger,
      apiKey,
      artifactRoot: flags.trajectories ? backend.artifactRoot : undefined,
      egress,
      instanceId,
      maxQueueDepth: flags.maxQueueDepth,
      drainSeconds: flags.drainTimeout,
      admissionStatus: flags.admissionStatus,
    })
    const lines = [
      `Over ${place}, code ${shortCode(code)}: ${workersText(await queue.workers(), code)}`,
    ]
    await openWorkflowPort(server, { facts, check, close }, { flags, port, lines })
  } catch (error) {
    await close()
    throw error
  }
}
