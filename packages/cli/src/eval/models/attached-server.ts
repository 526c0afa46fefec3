import { errorMessage, isOsmosisError, OsmosisError } from '@osmosis/core'

import type { EvaluationServer } from './remote-servers.ts'
import type { ServerProcess } from './server-process.ts'

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
