import { invalid } from '../command/exit-codes.ts'
import { assertWorkerFlags, refuseOneOf } from '../command/flags.ts'
import { disablePretenuring } from '../command/process.ts'
import { completeEnvironment } from '../command/environment.ts'
import type { ServedEntrypoint } from '../child/served-workflow.ts'
import type { ServeFlags } from './serve.ts'

/**
 * Serves the rollouts of an entrypoint, a workflow or an agent loop, until a signal ends the
 * process. Resolves when it listens.
 *
 * @throws OsmosisError with code `invalid_config` unless one is named, for flags that do not fit
 * together or not to what is served, and for a file of variables that is not there;
 * `invalid_entrypoint` for what cannot be served
 */
export async function serveCommand(
  entrypoint: string | undefined,
  flags: ServeFlags,
): Promise<ServedEntrypoint> {
  const spec = entrypoint ?? flags.module
  if (spec === undefined || (entrypoint !== undefined && flags.module !== undefined)) {
    throw invalid(
      'Name one entrypoint: a module that exports an AgentWorkflow or an agent loop, as <file> or -m <file>:<export>.',
    )
  }
  assertRegistrationFlags(flags)
  assertQueueFlags(flags)
  assertRunFlags(flags)
  disablePretenuring()
  completeEnvironment()
  const { awaitKeyFile } = await import('./listen.ts')
  awaitKeyFile(flags.apiKeyFile)
  const { serveQueue, serveWorkflow } = await import('./serve-workflow.ts')
  if (flags.redis !== undefined) return serveQueue(spec, flags.redis, flags)
  if (flags.workers !== undefined) return serveWorkflow(spec, flags)
  assertWorkerFlags(flags)
  const { loadEntrypoint } = await import('../inputs/load-entrypoint.ts')
  const loaded = await loadEntrypoint(spec)
  if (loaded.kind === 'workflow') return serveWorkflow(loaded, flags)
  refuseOneOf(
    {
      '--set': flags.set,
      '--record': flags.record,
      '--run': flags.run || undefined,
    },
    (flag) => `${flag} is for workflows, and ${loaded.file} exports an agent loop.`,
  )
  const { serveAgentLoop } = await import('./serve-agent-loop.ts')
  return serveAgentLoop(loaded, flags)
}

/** @throws OsmosisError with code `invalid_config` for flags that do not fit together */
function assertRegistrationFlags(flags: ServeFlags): void {
  const { register, publicHost } = flags
  if (!register) {
    if (publicHost === undefined) return
    throw invalid('--public-host only applies to a registration: pass --register as well.')
  }
  if (!flags.auth) {
    throw invalid(
      '--register and --no-auth exclude each other: the platform presents the key of the server in its health checks.',
    )
  }
}

/** @throws OsmosisError with code `invalid_config` for flags of `serve` that do not fit together */
function assertQueueFlags(flags: ServeFlags): void {
  if (flags.redis === undefined) {
    const unfit = {
      '--max-rollouts': flags.maxRollouts,
      '--max-queue-depth': flags.maxQueueDepth,
    }
    refuseOneOf(unfit, (flag) => `${flag} only applies to a queue: pass --redis as well.`)
    return
  }
  refuseOneOf(
    { '--outbox': flags.outbox },
    (flag) =>
      `${flag} and --redis exclude each other: the queue already stores accepted rollouts until their results are delivered.`,
  )
  refuseOneOf(
    { '--run': flags.run || undefined },
    (flag) =>
      `${flag} and --redis exclude each other: POST /run returns the result in its response, and a rollout in a queue may outlive the server. Serve without a queue, and add --workers for more processes.`,
  )
  const ofWorkers = {
    '--workers': flags.workers,
    '--stall-timeout': flags.stallTimeout,
    '--worker-memory': flags.workerMemory,
    '--record': flags.record,
  }
  refuseOneOf(
    ofWorkers,
    (flag) => `${flag} is a flag of osmosis worker: with --redis the server runs no rollouts.`,
  )
}

/** @throws OsmosisError with code `invalid_config` for flags of `--run` without it */
function assertRunFlags({ run, reward, groupColumn, groupSize }: ServeFlags): void {
  if (!run && [reward, groupColumn, groupSize].some((flag) => flag !== undefined)) {
    throw invalid(
      '--reward, --group-column and --group-size only apply to POST /run: pass --run as well.',
    )
  }
  if (groupSize !== undefined && groupColumn === undefined) {
    throw invalid('--group-size needs --group-column, which names the groups.')
  }
}
