import { availableParallelism } from 'node:os'

import { OsmosisError, errorMessage, isOsmosisError } from '@osmosis/core'
import { timeLimit } from '@osmosis/core/http'
import type { QueueConfig } from '@osmosis/eval'
import { redisAddressText } from '@osmosis/protocol/wire'

import { hideKeys } from '../../command/command-context.ts'
import { invalid, refuseOneOf } from '../../command/wrong-use.ts'
import { redisAddress } from '../../queue/queue-access.ts'
import { isUnreachable } from '../../serve/serve-plan.ts'
import type { ServerProcess } from '../../serve/server-process.ts'
import type { EvalRunFlags } from '../run.ts'

/** A running rollout server that executes the rollouts of an evaluation. */
export interface EvaluationServer {
  /** The value of `--server`. */
  readonly url: string
  /** Undefined: no key is sent. */
  readonly apiKey: string | undefined
  /** Where the policy of the evaluation listens, and the name under which the server reaches it. */
  readonly policyHost: string
}

/** The queue over which an evaluation reaches its workers. */
interface EvaluationQueue {
  /** URL of its Redis, without the password. */
  readonly redis: string
  /** Variables for the server of the evaluation: command lines are seen by other users of this machine. */
  readonly env: Readonly<Record<string, string>>
  /** Where the policy of the evaluation listens, and the name under which workers reach it. */
  readonly policyHost: string
}

/** Where the rollouts of an evaluation run: here, unless one of these is there. */
export interface RemotePlace {
  /** A running server. */
  readonly server: EvaluationServer | undefined
  /** Workers of a queue; the evaluation starts its server. */
  readonly queue: EvaluationQueue | undefined
}

/**
 * Where the rollouts run, by flags and by `[queue]` of the workspace.
 *
 * @throws OsmosisError with code `invalid_config` for flags that do not fit together, and for a policy that
 * the server or the workers could not reach
 */
export function remotePlace(
  flags: Partial<EvalRunFlags>,
  queue: QueueConfig | null,
  environment: NodeJS.ProcessEnv,
): RemotePlace {
  const { server: url, workers, policyHost: named } = flags
  if (url === undefined) {
    const isRemote = queue !== null && workers === undefined
    if (isRemote) return { server: undefined, queue: evaluationQueue(queue, named) }
    if (named === undefined) return { server: undefined, queue: undefined }
    throw invalid(
      '--policy-host is for rollouts on other machines: name a running server with --server, or a queue in [queue] of osmosis.toml.',
    )
  }
  refuseOneOf(
    {
      '--module': flags.module,
      '--workers': workers,
      '--max-turns': flags.maxTurns,
      '--set': flags.set,
    },
    (flag) => `${flag} only applies to code that the evaluation serves: omit it with --server.`,
  )
  const { hostname, username, password, search, hash } = new URL(url)
  if (username || password || search || hash) {
    throw invalid('--server must be a URL without credentials, query and fragment.')
  }
  const apiKey = environment['OSMOSIS_ROLLOUT_SERVER_API_KEY'] || undefined
  hideKeys(apiKey)
  const words = { others: 'Rollouts on another machine', areHere: 'the server runs here' }
  return {
    server: { url, apiKey, policyHost: policyHost(named, hostname, words) },
    queue: undefined,
  }
}

function evaluationQueue(queue: QueueConfig, named: string | undefined): EvaluationQueue {
  const { prefix, keyFile } = queue
  const { password, ...place } = redisAddress(queue.redis, undefined)
  const [first] = place.hosts
  const distant = place.hosts.find(({ host }) => !isUnreachable(host))
  return {
    redis: redisAddressText({ ...place, password: undefined }),
    env: {
      ...(password === undefined ? {} : { OSMOSIS_REDIS_PASSWORD: password }),
      ...(prefix === null ? {} : { OSMOSIS_REDIS_PREFIX: prefix }),
      ...(keyFile === null ? {} : { OSMOSIS_QUEUE_KEY_FILE: keyFile }),
    },
    policyHost: policyHost(named ?? queue.policyHost ?? undefined, (distant ?? first).host, {
      others: 'Workers on other machines',
      areHere: 'all of them run here',
    }),
  }
}

/**
 * The address of this machine under which a server or workers call the policy of an evaluation.
 *
 * @param named - the value of `--policy-host`
 * @param host - the host of the server, of the Redis or of its Sentinels
 * @param words - the callers and the condition under which loopback works, for the error
 * @throws OsmosisError with code `invalid_config` when they could not reach it
 */
function policyHost(
  named: string | undefined,
  host: string,
  { others, areHere }: { readonly others: string; readonly areHere: string },
): string {
  if (named === '0.0.0.0' || named === '::') {
    throw invalid(
      `Other machines cannot reach the policy at ${named}: name an address of this machine.`,
    )
  }
  if (named !== undefined) return named
  if (isUnreachable(host.replaceAll(/[[\]]/g, ''))) return '127.0.0.1'
  throw invalid(
    `${others} cannot reach the policy of this evaluation, which listens on 127.0.0.1. Pass --policy-host with the name or address under which they reach this machine, or --policy-host 127.0.0.1 if ${areHere}.`,
  )
}

/** The server of an evaluation: a child process, or a running server. */
export type EvaluatedServer = Omit<
  ServerProcess,
  'apiKey' | 'observed' | typeof Symbol.asyncDispose
> & {
  /** Undefined: no key is sent. */
  readonly apiKey: string | undefined
}

/**
 * Uses a running server. It does not report its grader, its metadata schema, or whether it grades attempts
 * together.
 *
 * @throws OsmosisError with code `protocol_error` when the server does not answer, `unauthorized` when it refuses
 * the key; the reason of `signal`
 */
export async function attachServer(
  { url, apiKey }: EvaluationServer,
  signal: AbortSignal,
): Promise<EvaluatedServer> {
  const { status } = await askServer({ url, apiKey }, '/health', signal)
  const wrongKey = (): OsmosisError => {
    const message = `The rollout server ${url} refuses ${apiKey === undefined ? 'a request without a key' : 'the key'}: set OSMOSIS_ROLLOUT_SERVER_API_KEY.`
    return new OsmosisError('unauthorized', message, { status: 401 })
  }
  if (status === 401) throw wrongKey()
  return {
    url,
    apiKey,
    kind: 'workflow',
    rowCheck: undefined,
    isConfigured: true,
    limitsCalls: true,
    hasGrader: true,
    groupMinSize: null,
    logTo: () => {},
    died: new AbortController().signal,
    // Some servers answer a health check without a key and refuse the first rollout.
    explain: async (failure) =>
      isOsmosisError(failure) && failure.code === 'unauthorized' ? wrongKey() : failure,
    close: async () => {},
  }
}

/** Time limit of a request. Milliseconds. */
const answerMs = 10_000

/**
 * Requests a path of a rollout server, with its key: newer servers require it for their health, too.
 *
 * @throws OsmosisError with code `protocol_error` when the server does not answer; the reason of `signal`
 */
export async function askServer(
  { url, apiKey }: Pick<EvaluationServer, 'url' | 'apiKey'>,
  path: '/health' | '/metrics',
  signal: AbortSignal = new AbortController().signal,
): Promise<Response> {
  const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
  const ended = AbortSignal.any([signal, timeLimit(answerMs)])
  try {
    return await fetch(`${url.replace(/\/+$/, '')}${path}`, { headers, signal: ended })
  } catch (cause) {
    signal.throwIfAborted()
    const message = `The rollout server ${url} does not answer: ${errorMessage(cause)}. Is it running?`
    throw new OsmosisError('protocol_error', message, { cause })
  }
}

/** Shorter runs would not gain a noticeable amount of time. Milliseconds. */
const shortestMs = 2_000
/** From this fraction of the time on, rollouts wait for the thread of the server. */
const busyShare = 0.7
/** Thread time per rollout. Less than this is protocol work, which workers do not take over. Milliseconds. */
const leastMsPerRollout = 5

/** Measures the thread that all rollouts of a server share. */
export interface WatchedThread {
  /** Counts a rollout. */
  rolloutBegins(): void
  /**
   * After the last rollout: a sentence if worker processes would have made the run shorter, else undefined.
   */
  advice(): Promise<string | undefined>
}

/** Measures the thread of a server from now on. */
export async function watchThread(
  server: Pick<EvaluatedServer, 'url' | 'apiKey'>,
): Promise<WatchedThread> {
  // Each request returns the utilization since the request before.
  await utilization(server)
  const since = performance.now()
  let rollouts = 0
  return {
    rolloutBegins: () => {
      rollouts += 1
    },
    advice: async () => {
      const share = await utilization(server)
      const ms = performance.now() - since
      const isHeldUp = share > busyShare && share * ms > leastMsPerRollout * rollouts
      if (ms < shortestMs || !isHeldUp) return undefined
      const percent = Math.floor(share * 100)
      return `The workflow occupied its thread for ${percent} % of the time. --workers auto runs rollouts on all ${availableParallelism()} cores.`
    },
  }
}

/** The fraction of the time in which the event loop was busy; 0 when the server does not report it. */
async function utilization(server: Pick<EvaluatedServer, 'url' | 'apiKey'>): Promise<number> {
  try {
    const text = await (await askServer(server, '/metrics')).text()
    return Number(/^nodejs_eventloop_utilization (\S+)$/m.exec(text)?.[1] ?? 0)
  } catch {
    // The rollouts report an unreachable server.
    return 0
  }
}
