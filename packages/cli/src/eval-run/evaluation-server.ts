import { OsmosisError } from '@osmosis/core'

import { hideSecrets } from '../surroundings.ts'
import type { EvalRunFlags } from './eval-commands.ts'
import { policyHost } from './evaluation-queue.ts'

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
export function evaluationServer(flags: EvalRunFlags): EvaluationServer | undefined {
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
