import { OsmosisError, errorMessage, isOsmosisError } from '@osmosis/core'
import type { QueueConfig } from '@osmosis/eval'

import { hideSecrets } from '../../command/surroundings.ts'
import { isUnreachable } from '../../serve/serve-agent-loop.ts'
import { redisUrl } from '../../worker/queue-access.ts'
import type { EvalRunFlags } from '../run.ts'
import type { ServerProcess } from './server-process.ts'

/** A rollout server that is up already, on which an evaluation runs its rollouts. */
export interface EvaluationServer {
  /** As it was given. */
  readonly url: string
  /** Undefined: no key is sent. */
  readonly apiKey: string | undefined
  /** Where the evaluation's policy listens, and under which name the server reaches it. */
  readonly policyHost: string
}

/**
 * The server that flags name, without its key; undefined when the evaluation serves the entrypoint itself.
 *
 * @throws OsmosisError with code `invalid_config` for flags that do not fit together, and for a policy that
 * the server could not reach
 */
export function evaluationServer(flags: Partial<EvalRunFlags>): EvaluationServer | undefined {
  const { server: url, serverApiKeyEnv } = flags
  if (url === undefined) {
    if (serverApiKeyEnv === undefined) return undefined
    throw invalid('--server-api-key-env is for a server that is up: pass --server as well.')
  }
  const unfit = {
    '--module': flags.module,
    '--workers': flags.workers,
    '--rollout-port': flags.rolloutPort,
    '--verbose': flags.verbose,
    '--redis': flags.redis || undefined,
    '--log': flags.log,
    '--max-turns': flags.maxTurns,
  }
  for (const [flag, value] of Object.entries(unfit)) {
    if (value === undefined) continue
    throw invalid(`${flag} is for code that the evaluation serves: leave it out with --server.`)
  }
  const { hostname, username, password, search, hash } = new URL(url)
  if (username || password || search || hash) {
    throw invalid('--server must be a URL without credentials, query and fragment.')
  }
  return {
    url,
    apiKey: undefined,
    policyHost: policyHost(flags.policyHost, hostname, {
      others: 'Rollouts on another machine',
      areHere: 'the server runs here',
    }),
  }
}

/**
 * The key of a rollout server, in the variable of this name.
 *
 * @throws OsmosisError with code `invalid_config` when it is not set
 */
export function serverKey(
  name: string | undefined,
  environment: NodeJS.ProcessEnv,
): string | undefined {
  if (name === undefined) return undefined
  const key = environment[name]
  hideSecrets({ [name]: key })
  if (key) return key
  throw invalid(
    `The key of the rollout server is missing: the environment variable ${name} is not set.`,
  )
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}

/** The queue over which an evaluation reaches its workers. */
export interface EvaluationQueue {
  /** What the server of the evaluation is told of it. */
  readonly serveArgs: readonly string[]
  /** Where the evaluation's policy listens, and under which name workers reach it. */
  readonly policyHost: string
}

/**
 * The queue that flags name, else the workspace; undefined when rollouts run on this machine.
 *
 * @throws OsmosisError with code `invalid_config` for flags that do not fit together, and for a policy
 * that workers could not reach
 */
export function evaluationQueue(
  flags: Partial<EvalRunFlags>,
  configured: QueueConfig | null,
): EvaluationQueue | undefined {
  // With a server the rollouts are its own business.
  const queue = flags.redis === false || flags.server !== undefined ? null : configured
  const redis = flags.redis || queue?.redis
  if (redis === undefined) {
    const others = queueFlags(flags, null)
    if (flags.server !== undefined) others['--policy-host'] = undefined
    for (const [flag, value] of Object.entries(others)) {
      if (value !== undefined) throw invalid(`${flag} is about a queue: pass --redis as well.`)
    }
    return undefined
  }
  if (flags.workers !== undefined) {
    throw invalid('--workers goes to osmosis worker: over a queue the evaluation runs no rollouts.')
  }
  const { hostname } = redisUrl(redis, undefined)
  const { '--policy-host': named, ...others } = queueFlags(flags, queue)
  const serveArgs = Object.entries(others).flatMap(([flag, value]) =>
    value === undefined ? [] : value === true ? [flag] : [flag, value],
  )
  return {
    serveArgs: ['--redis', redis, ...serveArgs],
    policyHost: policyHost(named, hostname, {
      others: 'Workers on other machines',
      areHere: 'all of them run here',
    }),
  }
}

/** @param queue - counts for what the flags leave open */
function queueFlags(
  flags: Partial<EvalRunFlags>,
  queue: QueueConfig | null,
): Record<string, string | true | undefined> & { '--policy-host': string | undefined } {
  return {
    '--redis-prefix': flags.redisPrefix ?? queue?.prefix ?? undefined,
    '--queue-key-file': flags.queueKeyFile ?? queue?.keyFile ?? undefined,
    '--allow-plain-keys': flags.allowPlainKeys || undefined,
    '--code-version': flags.codeVersion,
    '--policy-host': flags.policyHost ?? queue?.policyHost ?? undefined,
  }
}

/**
 * Under which address of this machine others ask the policy of an evaluation.
 *
 * @param named - what `--policy-host` says
 * @param host - where they, or what they have in common with this machine, are
 * @param words - who they are and what makes loopback enough, for the error
 * @throws OsmosisError with code `invalid_config` when they could not reach it
 */
function policyHost(
  named: string | undefined,
  host: string,
  { others, areHere }: { readonly others: string; readonly areHere: string },
): string {
  if (named === '0.0.0.0' || named === '::') {
    throw invalid(`Nobody reaches the policy as ${named}: name an address of this machine.`)
  }
  if (named !== undefined) return named
  if (isUnreachable(host.replaceAll(/[[\]]/g, ''))) return '127.0.0.1'
  throw invalid(
    `${others} cannot ask the policy of this evaluation, which listens on 127.0.0.1. Say with --policy-host under which name or address of this machine they reach it; --policy-host 127.0.0.1 when ${areHere}.`,
  )
}

/** The server of an evaluation: a process of its own, or one that was up before. */
export type EvaluatedServer = Omit<ServerProcess, 'apiKey' | typeof Symbol.asyncDispose> & {
  /** Undefined: no key is sent. */
  readonly apiKey: string | undefined
}

/**
 * Takes a server that is up. What it runs is its own business: it says nothing of its grader, of the rows that
 * it takes, or of attempts that it grades together.
 *
 * @throws OsmosisError with code `protocol_error` when nothing answers there, `unauthorized` when it refuses
 * the key; the reason of `signal`
 */
export async function attachServer(
  { url, apiKey }: EvaluationServer,
  signal: AbortSignal,
): Promise<EvaluatedServer> {
  const status = await healthStatus({ url, apiKey }, signal)
  const wrongKey = (): OsmosisError => {
    const message = `The rollout server ${url} refuses ${apiKey === undefined ? 'a request without its key' : 'the key'}: name the variable that has it with --server-api-key-env.`
    return new OsmosisError('unauthorized', message, { status: 401 })
  }
  if (status === 401) throw wrongKey()
  return {
    url,
    apiKey,
    kind: 'workflow',
    metadataCheck: undefined,
    isConfigured: true,
    hasGrader: true,
    groupMinSize: null,
    logTo: () => {},
    hasDroppedStepRewards: () => false,
    died: new AbortController().signal,
    // Some tell how they are without a key, and refuse the first rollout.
    explain: async (failure) =>
      isOsmosisError(failure) && failure.code === 'unauthorized' ? wrongKey() : failure,
    close: async () => {},
  }
}

async function healthStatus(
  { url, apiKey }: Pick<EvaluationServer, 'url' | 'apiKey'>,
  signal: AbortSignal,
): Promise<number> {
  try {
    return (await askHealth({ url, apiKey }, signal)).status
  } catch (cause) {
    signal.throwIfAborted()
    const message = `The rollout server ${url} does not answer: ${errorMessage(cause)}. Is it running?`
    throw new OsmosisError('protocol_error', message, { cause })
  }
}

/** Asks a rollout server how it is. Servers of the newest generation want their key for that. */
export async function askHealth(
  { url, apiKey }: Pick<EvaluationServer, 'url' | 'apiKey'>,
  signal: AbortSignal,
): Promise<Response> {
  const headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
  return fetch(`${url.replace(/\/+$/, '')}/health`, { headers, signal })
}
