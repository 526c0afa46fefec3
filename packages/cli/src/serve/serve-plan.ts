import { BlockList, isIP } from 'node:net'

import { planRunner, type RunnerPlan } from '../child/runner-plan.ts'
import type { EntrypointFacts } from '../child/served-workflow.ts'
import type { Given } from '../command/flags.ts'
import { invalid, refuseOneOf } from '../command/wrong-use.ts'
import type { ServeFlags } from './serve.ts'

/** What `osmosis serve` serves, and how. */
export interface ServePlan extends RunnerPlan {
  readonly host: string
  /** Undefined: that of the environment, or the default. */
  readonly port: number | undefined
  readonly keys: KeyPlan
  /** Folder that stores accepted rollouts. */
  readonly outbox: string | undefined
  readonly trajectories: boolean
  /** What `POST /run` does; false: it is not served. */
  readonly run: false | Given<ServeFlags, 'reward' | 'groupColumn' | 'groupSize'>
  /** The queue whose workers run the rollouts; undefined: they run here. */
  readonly queue:
    | (Given<ServeFlags, 'maxRollouts' | 'maxQueueDepth'> & { readonly redis: string })
    | undefined
  /** Folder for traces of an agent loop. */
  readonly traces: string | undefined
  readonly registers: boolean
  /** Where the platform reaches the server; undefined: the address it listens on. */
  readonly publicHost: ServeFlags['publicHost']
}

/** The keys that callers may present. */
export interface KeyPlan {
  readonly areRequired: boolean
  /** Undefined: that of the environment. */
  readonly key: string | undefined
  /** Read again on SIGHUP. */
  readonly file: string | undefined
}

/**
 * Makes the plan of `osmosis serve`.
 *
 * @throws OsmosisError with code `invalid_config` unless one entrypoint is named, and for flags that do not fit together
 */
export function planServe(entrypoint: string | undefined, flags: ServeFlags): ServePlan {
  const { module, register, publicHost, auth, apiKey, apiKeyFile, redis } = flags
  const { run, reward, groupColumn, groupSize } = flags
  const spec = entrypoint ?? module
  if (spec === undefined || (entrypoint !== undefined && module !== undefined)) {
    throw invalid(
      'Name one entrypoint: a module that exports an AgentWorkflow or an agent loop, as <file> or -m <file>:<export>.',
    )
  }
  if (!register && publicHost !== undefined) {
    throw invalid('--public-host only applies to a registration: pass --register as well.')
  }
  if (register && !auth) {
    throw invalid(
      '--register and --no-auth exclude each other: the platform presents the key of the server in its health checks.',
    )
  }
  if (redis === undefined) {
    refuseOneOf(
      { '--max-rollouts': flags.maxRollouts, '--max-queue-depth': flags.maxQueueDepth },
      (flag) => `${flag} only applies to a queue: pass --redis as well.`,
    )
  } else refuseWithQueue(flags)
  if (!run && [reward, groupColumn, groupSize].some((flag) => flag !== undefined)) {
    throw invalid(
      '--reward, --group-column and --group-size only apply to POST /run: pass --run as well.',
    )
  }
  if (groupSize !== undefined && groupColumn === undefined) {
    throw invalid('--group-size needs --group-column, which names the groups.')
  }
  if (auth && apiKey !== undefined && apiKeyFile !== undefined) {
    throw invalid('--api-key and --api-key-file exclude each other: write the key into the file.')
  }
  const { host, port, outbox, trajectories, maxRollouts, maxQueueDepth } = flags
  return {
    ...planRunner(spec, flags),
    defaultConcurrency: flags.concurrency,
    host,
    port,
    keys: { areRequired: auth, key: apiKey, file: apiKeyFile },
    outbox,
    trajectories,
    run: run === true && { reward, groupColumn, groupSize },
    queue: redis === undefined ? undefined : { redis, maxRollouts, maxQueueDepth },
    traces: flags.log,
    registers: register ?? false,
    publicHost,
  }
}

function refuseWithQueue(flags: ServeFlags): void {
  const { outbox, run, workers, stallTimeout, workerMemory, record } = flags
  if (outbox !== undefined) {
    throw invalid(
      '--outbox and --redis exclude each other: the queue already stores accepted rollouts until their results are delivered.',
    )
  }
  if (run) {
    throw invalid(
      '--run and --redis exclude each other: POST /run returns the result in its response, and a rollout in a queue may outlive the server. Serve without a queue, and add --workers for more processes.',
    )
  }
  refuseOneOf(
    {
      '--workers': workers,
      '--stall-timeout': stallTimeout,
      '--worker-memory': workerMemory,
      '--record': record,
    },
    (flag) => `${flag} is a flag of osmosis worker: with --redis the server runs no rollouts.`,
  )
}

/**
 * Refuses what a plan has that does not apply to what its entrypoint exports.
 *
 * @param hasKey - whether callers have to present one
 * @throws OsmosisError with code `invalid_config`
 */
export function assertServable(
  plan: ServePlan,
  { kind, groupMinSize, file }: Pick<EntrypointFacts, 'kind' | 'groupMinSize'> & { file: string },
  hasKey: boolean,
): void {
  const { set, record, run, traces, registers, publicHost, host } = plan
  if (kind === 'workflow') {
    refuseOneOf(
      { '--register': registers || undefined, '--log': traces },
      (flag) => `${flag} is for agent loops, and ${file} exports an AgentWorkflow.`,
    )
    if (run === false || groupMinSize === null || run.groupSize !== undefined) return
    throw invalid(
      `The grader of ${file} compares the attempts at a row: pass --group-column and --group-size, which define the groups of POST /run.`,
    )
  }
  refuseOneOf(
    {
      '--set': Object.keys(set)[0],
      '--record': record,
      '--run': run || undefined,
    },
    (flag) => `${flag} is for workflows, and ${file} exports an agent loop.`,
  )
  if (registers && !hasKey) {
    throw invalid(
      '--register needs a key, which the platform presents when it asks for the health of the server: pass --api-key, or set OSMOSIS_ROLLOUT_SERVER_API_KEY.',
    )
  }
  // An external service does not know the address: it sees that of outgoing connections.
  if (registers && publicHost === undefined && isUnreachable(host)) {
    throw invalid(
      `Other machines cannot reach the server at ${host}. Pass --public-host with the name or address under which the platform reaches it.`,
    )
  }
}

/** Addresses of servers that other machines cannot reach. */
const unreachable = new BlockList()
unreachable.addSubnet('127.0.0.0', 8)
unreachable.addSubnet('0.0.0.0', 8)
unreachable.addAddress('::', 'ipv6')
unreachable.addAddress('::1', 'ipv6')

/** Whether other machines cannot reach a server that listens on this host. */
export function isUnreachable(host: string): boolean {
  const family = isIP(host)
  if (family === 0) return host.toLowerCase() === 'localhost'
  return unreachable.check(host, family === 6 ? 'ipv6' : 'ipv4')
}
