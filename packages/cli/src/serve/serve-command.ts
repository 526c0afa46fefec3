import type { ServedEntrypoint } from '../child/served-workflow.ts'
import { completeEnvironment } from '../command/environment.ts'
import { disablePretenuring } from '../command/process.ts'
import type { LoadedEntrypoint } from '../inputs/load-entrypoint.ts'
import { planServe } from './serve-plan.ts'
import type { ServeFlags } from './serve.ts'

/**
 * Serves the rollouts of an entrypoint, a workflow or an agent loop, until a signal ends the
 * process. Resolves when it listens.
 *
 * @param prepared - what is served of an entrypoint that this process has loaded. Default: as it is
 * @throws OsmosisError with code `invalid_config` for flags that do not fit together or not to what is served, and for a
 * file of variables that is not there; `invalid_entrypoint` for what cannot be served
 */
export async function serveCommand(
  entrypoint: string | undefined,
  flags: ServeFlags,
  prepared: (loaded: LoadedEntrypoint) => LoadedEntrypoint = (loaded) => loaded,
): Promise<ServedEntrypoint> {
  const plan = planServe(entrypoint, flags)
  disablePretenuring()
  completeEnvironment()
  const { awaitKeyFile } = await import('./listen.ts')
  awaitKeyFile(plan.keys.file)
  const { serveQueue, serveWorkflow } = await import('./serve-workflow.ts')
  if (plan.processes !== undefined) return serveWorkflow(plan, undefined)
  const { loadEntrypoint } = await import('../inputs/load-entrypoint.ts')
  const loaded = prepared(await loadEntrypoint(plan.entrypoint))
  if (plan.queue !== undefined) return serveQueue(plan, plan.queue, loaded)
  if (loaded.kind === 'workflow') return serveWorkflow(plan, loaded)
  const { serveAgentLoop } = await import('./serve-agent-loop.ts')
  return serveAgentLoop(plan, loaded)
}
